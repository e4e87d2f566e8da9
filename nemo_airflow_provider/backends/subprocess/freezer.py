"""Stopping a workload's processes where they are, and letting them go on. Standard library only.

SIGSTOP, and not the kernel's cgroup freezer: a worker may rarely make groups of its own. What a process notices is the
time that has passed; a program that waits for a stopped child of its own could notice that too, so parents are stopped
first and let go last.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from nemo_airflow_provider import processes

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the supervisor's start-up time
    from collections.abc import Callable

    from nemo_airflow_provider.backends.subprocess.control import Control

_NEVER = float("inf")
#: Between two passes over processes of which some still run, or had children meanwhile.
_SETTLE_SECONDS = 0.005
#: Between two looks at frozen ones: somebody else may have let one go.
_CHECK_SECONDS = 1.0
#: A process that is found running may have started another before it stopped: a later pass finds that one.
_CLEAN_PASSES = 2
#: Passes made at once, for those who start others faster than we sleep.
_PASSES = 20


class Freezer:
    """Does what the control directory wishes: everybody of the workload stopped, or going on.

    :param control: where the wish is, and where it is noted that it has come true
    :param ended: collects the children of this process that have ended, and says how many there were so far; whoever
        belonged to one that ended during a pass may have been overlooked
    :param group: of the workload, which is all that can be found of it where this process adopts no orphans; else 0
    """

    def __init__(self, control: Control, ended: Callable[[], int], group: int = 0) -> None:
        self._control = control
        self._ended = ended
        self._group = group
        #: Whom we stopped, in that order.
        self._stopped: dict[int, None] = {}
        #: Whom the workload itself had stopped: they stay so.
        self._left_alone: set[int] = set()
        self._since: float | None = None
        self._total = 0.0
        self._clean_passes = 0
        self._noted = False
        self._over = False
        #: When `turn` has something to do, on the monotonic clock.
        self.look_at = _NEVER

    def seconds(self, now: float) -> float:
        """How long the workload has been frozen so far, the time until everybody stood still included."""
        return self._total + (0.0 if self._since is None else now - self._since)

    def turn(self, now: float) -> None:
        """Do what is to be done now; sets `look_at`."""
        if now < self.look_at:
            return
        if self._over or not self._control.freeze_is_wished():
            self._thaw(now)
            return
        if self._since is None:
            self._since = now
        settled = self._settle()
        self.look_at = now + (_CHECK_SECONDS if settled else _SETTLE_SECONDS)
        if settled:
            self._note(True)

    def end(self, now: float) -> None:
        """Let everybody go, for good: the workload is to end."""
        self._over = True
        self._thaw(now)

    def _settle(self) -> bool:
        """Whether everybody stands still, after some passes."""
        for _ in range(_PASSES):
            self._clean_passes = self._clean_passes + 1 if self._stop_everybody() else 0
            if self._clean_passes >= _CLEAN_PASSES:
                return True
        return False

    def _stop_everybody(self) -> bool:
        """Whether everybody stood still already, and nobody ended meanwhile."""
        if self._group:
            self._stop(-self._group)
            return True
        before, still = self._ended(), True
        for process in processes.offspring(os.getpid()):
            if process.stopped:
                if process.pid not in self._stopped:
                    self._left_alone.add(process.pid)
            elif not (process.blocked and process.pid in self._stopped):
                # A shell waits so for its child to become another program; one that is stopped before never will.
                self._stop(process.pid)
                still = False
        return still and self._ended() == before

    def _stop(self, pid: int) -> None:
        processes.send(pid, signal.SIGSTOP)
        self._stopped[pid] = None
        self._left_alone.discard(pid)

    def _thaw(self, now: float) -> None:
        self.look_at = _NEVER
        if self._since is None:
            return
        self._note(False)
        for pid in reversed(self._stopped):
            processes.send(pid, signal.SIGCONT)
        self._total, self._since, self._clean_passes = self.seconds(now), None, 0
        self._stopped.clear()
        self._left_alone.clear()

    def _note(self, frozen: bool) -> None:
        if frozen is not self._noted:
            with suppress(OSError):  # a full disk: tried again at the next look
                self._control.note_frozen(frozen)
                self._noted = frozen
