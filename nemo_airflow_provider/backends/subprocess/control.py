"""The supervisor's side of the control directory: lock, stop requests, notes. Standard library only.

What is written or read goes through descriptors that are held, so a workload that replaces names here changes nothing
for its supervisor, which ends it: nobody else could find it any more.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from contextlib import suppress

from nemo_airflow_provider.backends.subprocess.reach import (
    DIRECTORY,
    GENTLY,
    is_absent,
    open_regular,
    opened,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where our own files are in a work directory: the command's current directory is its own, and so are the names
#: there. Hidden, so that neither `mkdir output` nor `rm -rf *` meets them.
CONTROL = ".nemo"
#: There says whose work directory it is.
WORKLOAD_FILE = "workload.json"

_LOCK_SECONDS = 5.0


class Control:
    """Holds the lock on `alive`, the FIFO `stop` and the file `output` in the control directory of a work directory.

    :param work: the open work directory
    :param root: where its path begins
    :param parts: the names on the way to it
    :raises OSError: another supervisor is, or was, here; or the files cannot be made
    """

    def __init__(self, work: int, root: str, parts: list[str]) -> None:
        self._path = (root, *parts)
        self._directory = os.open(CONTROL, DIRECTORY, dir_fd=work)
        self._alive = self._lock_alive()
        self._refuse_second_run()
        self.stop_requests = self._make_fifo("stop")
        self.output = open_regular(self._directory, "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        #: What must stay as it is for others to find the workload, stop it and read its output.
        self._ours = {name: self._stat(name) for name in ("alive", "stop", "output", WORKLOAD_FILE)}

    def note_start(self, record: dict[str, Any]) -> None:
        """Write `started`."""
        self._note("started", record)
        self._ours["started"] = self._stat("started")

    def forget_start(self) -> None:
        """Take `started` back."""
        os.unlink("started", dir_fd=self._directory)

    def note_end(self, record: dict[str, Any]) -> None:
        """Write `exit.json`."""
        self._note("exit.json", record)

    def forgotten(self) -> bool:
        """Whether nobody can find this workload, or believe its files, any more: one of them, or a directory on the
        way to them, was removed, replaced or locked, or there is an end that we did not note."""
        try:
            with opened(*self._path, CONTROL) as found:
                reached = os.path.samestat(os.fstat(found), os.fstat(self._directory))
            ours = all(_is_same(self._stat(name), made) for name, made in self._ours.items())
            return not reached or not ours or self._is_there("exit.json")
        except OSError as error:
            return is_absent(error)  # a disk that does not answer is not the workload's doing

    def graces(self) -> list[float]:
        """The grace seconds of the stop requests that wait."""
        try:
            words = os.read(self.stop_requests, 1 << 12).split()
        except BlockingIOError:  # somebody else has read them
            return []
        found = []
        for word in words:
            with suppress(ValueError):  # not from us
                found.append(float(word))
        return [grace for grace in found if 0 <= grace < float("inf")]

    def release(self) -> None:
        """Say that the supervisor is done."""
        os.close(self._alive)

    def _lock_alive(self) -> int:
        file = open_regular(self._directory, "alive", os.O_RDWR | os.O_CREAT)
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:  # somebody asks whether we live: that lock lasts microseconds
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001)

    def _refuse_second_run(self) -> None:
        for name in ("started", "exit.json"):
            if self._is_there(name):
                raise FileExistsError(errno.EEXIST, "the command was started before", name)

    def _make_fifo(self, name: str) -> int:
        with suppress(FileNotFoundError):  # usual: only a start that failed leaves one
            os.unlink(name, dir_fd=self._directory)
        os.mkfifo(name, 0o600, dir_fd=self._directory)
        # Open for writing too, so that it never reads as "all writers have gone".
        return os.open(name, os.O_RDWR | GENTLY, dir_fd=self._directory)

    def _note(self, name: str, record: dict[str, Any]) -> None:
        write_file(self._directory, name, json.dumps(record).encode())

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)

    def _is_there(self, name: str) -> bool:
        try:
            self._stat(name)
        except FileNotFoundError:
            return False
        return True


def _is_same(found: os.stat_result, made: os.stat_result) -> bool:
    rights = stat.S_IRWXU  # others may be let in
    return os.path.samestat(found, made) and found.st_mode & rights == made.st_mode & rights
