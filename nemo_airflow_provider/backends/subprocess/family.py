"""Everybody of a workload: its main process, and whom that and its children started. Standard library only."""

from __future__ import annotations

import os
import signal
import time

from nemo_airflow_provider import processes

#: Passes made at once over those who start others faster than we sleep.
_KILL_PASSES = 50


class Family:
    """The processes below this one.

    :param pid: of the main process, leader of its own session and group
    :param adopts_orphans: whether this process is the parent of all of them in the end; else the group is all that
        can be found
    """

    def __init__(self, pid: int, adopts_orphans: bool) -> None:
        self.pid = pid
        self._adopts_orphans = adopts_orphans
        #: Of the main process, once it has ended.
        self.exit_code: int | None = None
        #: When that was seen, microseconds since 1970.
        self.ended = 0
        self._collected = 0

    @property
    def group(self) -> int:
        """The process group where that is all that can be found; else 0."""
        return 0 if self._adopts_orphans else self.pid

    def reap(self) -> bool:
        """Collect what has ended; False when there is no child any more, zombie or not."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._collected += 1
            if pid == self.pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
                self.ended = time.time_ns() // 1000

    def count_ended(self) -> int:
        """How many have ended so far."""
        self.reap()
        return self._collected

    def survivors(self) -> list[int]:
        """Who still lives, as `kill` takes it."""
        has_children = self.reap()
        if self._adopts_orphans:
            return processes.descendants(os.getpid()) if has_children else []
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [-self.pid]

    def ask_to_end(self) -> None:
        """SIGTERM for the main process and its group."""
        ask_to_end(-self.pid)

    def kill(self) -> None:
        """SIGKILL for everybody, those included who are born meanwhile."""
        if self.exit_code is None:  # afterwards the group's number may be another's
            processes.send(-self.pid, signal.SIGKILL)
        if not self._adopts_orphans:
            for pid in self.survivors():
                processes.send(pid, signal.SIGKILL)
            return
        for _ in range(_KILL_PASSES):
            if not self.reap():
                return
            for process in processes.offspring(os.getpid()):
                processes.send(process.pid, signal.SIGKILL)


def ask_to_end(pid: int) -> None:
    """SIGTERM for a process, or a group as a negative number."""
    processes.send(pid, signal.SIGTERM)
    processes.send(pid, signal.SIGCONT)  # a stopped process would not hear the first
