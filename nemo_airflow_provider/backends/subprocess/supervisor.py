"""The process that owns one workload: starts it, copies its output to a file, keeps its timers, notes its end.

Runs on its own (`launch.py` starts it), so that neither the end of the worker nor of Airflow touches the workload.
Imports only what starts within milliseconds. It is told what to do on its standard input, so that the environment,
which may hold secrets, stands in no file and on no command line.

The workload runs at most once: `started` is written before the command is let go, and a supervisor that finds
`started` or `exit.json` starts nothing. The lock on `alive` is held for this process's life and says to everybody
that it lives.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from contextlib import suppress

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.subprocess.child import Child, StartFailed, catch_signals, start
from nemo_airflow_provider.backends.subprocess.control import Control
from nemo_airflow_provider.backends.subprocess.copier import RETRY_SECONDS, Copier
from nemo_airflow_provider.backends.subprocess.family import Family, ask_to_end
from nemo_airflow_provider.backends.subprocess.frames import STREAM_NUMBERS
from nemo_airflow_provider.backends.subprocess.freezer import Freezer

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the start-up time
    from typing import Any, NoReturn

_NEVER = float("inf")
_ORPHAN_CHECK_SECONDS = 1.0
_LEFTOVER_GRACE_SECONDS = 2.0
_HARD_KILL_SECONDS = 10.0
_KILL_AGAIN_SECONDS = 0.05
_FULL_DISK_SECONDS = 10.0


def main(directory: int) -> NoReturn:
    """Supervise the workload whose directory is open as `directory`, locked by the submitter.

    Standard input holds one JSON object: `argv` (its first word a path), `env`, `grace_seconds`, `ttl_seconds`, and
    the directory's path as `root` and `parts`.
    Standard output gets one: `{"pid"}`, or `{"errno", "text"}`, with `"own": true` when the command is not to blame.
    The lock is shared with the submitter (one open file) and let go once the command runs, even when the submitter
    is killed before; after a failed start the submitter holds it on.
    """
    if os.fork():
        os._exit(0)
    os.set_inheritable(directory, False)
    request = _read_request()
    report = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    try:
        supervisor = Supervisor(directory, request)
    except StartFailed as failure:
        _tell(report, {"errno": failure.number, "text": str(failure)})
        os._exit(1)
    except OSError as error:
        _tell(report, {"errno": error.errno, "text": str(error), "own": True})
        os._exit(1)
    fcntl.flock(directory, fcntl.LOCK_UN)
    _tell(report, {"pid": supervisor.pid})
    os.close(report)
    supervisor.watch()
    supervisor.finish()
    os._exit(0)


def _read_request() -> dict[str, Any]:
    data = b""
    while block := os.read(0, 1 << 16):
        data += block
    try:
        request: dict[str, Any] = json.loads(data)
    except ValueError:
        os._exit(1)  # the submitter died while it wrote; nothing has begun
    return request


def _tell(report: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the submitter is gone; what it wanted to know is in the files
        os.write(report, json.dumps(message).encode())


class Supervisor:
    """One workload, from its start to `exit.json`; made when its command runs.

    :param directory: its open directory
    :param request: see `main`
    :raises StartFailed: the system refuses to run the command
    :raises OSError: our own files, pipes or processes cannot be made
    """

    def __init__(self, directory: int, request: dict[str, Any]) -> None:
        self._grace: float = request["grace_seconds"]
        self._started = 0
        self._stopped: str | None = None
        self._kill_at = self._give_up_at = _NEVER
        adopts_orphans = processes.adopt_orphans()
        self._control = Control(directory, request["root"], request["parts"])
        self._signals = catch_signals()
        self._copier = Copier(self._control.output, [self._signals, self._control.stop_requests])
        try:
            child = start(request["argv"], request["env"], directory, self._note_start)
        except StartFailed:
            self._control.forget_start()
            raise
        self.pid = child.pid
        self._family = Family(child.pid, adopts_orphans)
        self._freezer = Freezer(self._control, self._family.count_ended, self._family.group)
        self._copier.add(child.stdout, STREAM_NUMBERS["stdout"])
        self._copier.add(child.stderr, STREAM_NUMBERS["stderr"])
        self._orphan_check_at = time.monotonic() + _ORPHAN_CHECK_SECONDS
        self._ttl_at = time.monotonic() + request["ttl_seconds"]

    def _note_start(self, child: Child) -> None:
        process = processes.look(child.pid)
        self._started = time.time_ns() // 1000
        record = {
            "pid": child.pid,
            "born": process.born if process else None,
            "boot": processes.boot_id(),
            "pipes": [os.fstat(pipe).st_ino for pipe in (child.stdout, child.stderr)],
            "started": self._started,
            "supervisor": os.getpid(),
        }
        self._control.note_start(record)

    def watch(self) -> None:
        """Until the main process has ended."""
        while self._family.exit_code is None:
            now = time.monotonic()
            if now >= self._orphan_check_at:
                self._orphan_check_at = now + _ORPHAN_CHECK_SECONDS
                for grace in self._control.noted_graces():
                    self._ask("asked", grace)
                if self._control.forgotten():
                    self._ask("orphaned", self._grace)
                self._freezer.look_at = now
            self._freezer.turn(now)
            ttl_at = self._ttl_at + self._freezer.seconds(now) if self._stopped is None else _NEVER
            if now >= ttl_at:
                self._ask("ttl", self._grace)
            if now >= self._kill_at:
                self._family.kill()
                self._kill_at = now + _KILL_AGAIN_SECONDS
            self._turn(min(self._orphan_check_at, self._kill_at, ttl_at, self._freezer.look_at) - time.monotonic())
            self._family.reap()

    def _turn(self, seconds: float) -> None:
        for file in self._copier.turn(seconds):
            if file == self._control.stop_requests:
                self._freezer.look_at = 0.0
                for grace in self._control.graces():
                    self._ask("asked", grace)
            elif set(os.read(self._signals, 1 << 12)) - {signal.SIGCHLD}:
                # Not from us: an administrator, or a host that shuts down.
                self._ask("signalled", self._grace)

    def _ask(self, reason: str, grace: float) -> None:
        """SIGTERM now, once; SIGKILL after the shortest grace that was ever asked for. A disk that is full gets some
        seconds more: whoever asked wants an end."""
        self._kill_within(grace)
        self._give_up_at = min(self._give_up_at, time.monotonic() + grace + _FULL_DISK_SECONDS)
        if self._stopped is None and self._family.exit_code is None:
            self._stopped = reason
            self._family.ask_to_end()
            self._freezer.end(time.monotonic())

    def _kill_within(self, seconds: float) -> None:
        self._kill_at = min(self._kill_at, time.monotonic() + seconds)

    def finish(self) -> None:
        """After the main process: stop what it left behind, copy the last output, write `exit.json`."""
        self._stop_leftovers()
        whole = self._copier.drain(self._turn, self._is_hopeless)
        while not self._note_exit(whole) and not self._is_hopeless():
            self._turn(RETRY_SECONDS)
        self._control.release()

    def _is_hopeless(self) -> bool:
        return time.monotonic() > self._give_up_at

    def _stop_leftovers(self) -> None:
        asked: set[int] = set()
        survivors = self._family.survivors()
        self._kill_within(min(self._grace, _LEFTOVER_GRACE_SECONDS))
        give_up_at = time.monotonic() + _LEFTOVER_GRACE_SECONDS + _HARD_KILL_SECONDS
        while survivors and time.monotonic() < give_up_at:
            for pid in set(survivors) - asked:  # some are born while others are being asked
                ask_to_end(pid)
            asked.update(survivors)
            if time.monotonic() >= self._kill_at:
                self._family.kill()
            until = time.monotonic() + _KILL_AGAIN_SECONDS
            while (left := until - time.monotonic()) > 0:
                self._turn(left)
            survivors = self._family.survivors()

    def _note_exit(self, whole: bool) -> bool:
        """False when the disk is full; any other refusal (the directory is gone, the name taken) will not pass."""
        times = {"started": self._started, "ended": self._family.ended}
        try:
            record = {"exit_code": self._family.exit_code, **times, "stopped": self._stopped, "whole": whole}
            self._control.note_end(record)
        except OSError as error:
            return error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return True
