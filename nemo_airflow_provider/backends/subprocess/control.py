"""The supervisor's side of the control directory: lock, stop requests, notes. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress

from nemo_airflow_provider.backends.subprocess.removal import DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where our own files are in a work directory: the command's current directory is its own, and so are the names
#: there. Hidden, so that neither `mkdir output` nor `rm -rf *` meets them.
CONTROL = ".nemo"

_LOCK_SECONDS = 5.0


class Control:
    """Holds the lock on `alive` and the FIFO `stop` in the control directory of an open work directory.

    :raises OSError: another supervisor is, or was, here; or the files cannot be made
    """

    def __init__(self, work: int) -> None:
        self._work = work
        self._directory = os.open(CONTROL, DIRECTORY, dir_fd=work)
        self._alive = self._lock_alive()
        self._refuse_second_run()
        self.stop_requests = self._make_fifo("stop")

    def open(self, name: str, flags: int) -> int:
        """Open a file of ours, of mode 0600 when it is made."""
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self._directory)

    def note(self, name: str, content: dict[str, Any]) -> None:
        """Write a file that is there wholly or not at all."""
        new = f".{name}.new"
        file = self.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            data = json.dumps(content).encode()
            if os.write(file, data) != len(data):
                raise OSError(errno.ENOSPC, "no room", name)
        finally:
            os.close(file)
        os.rename(new, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def forget(self, name: str) -> None:
        """Take a note back."""
        os.unlink(name, dir_fd=self._directory)

    def forgotten(self) -> bool:
        """Whether nobody can find this workload any more: a directory or file of ours was removed or replaced."""
        ours = _is_there(self._work, CONTROL, self._directory) and _is_there(self._directory, "alive", self._alive)
        return not ours

    def graces(self) -> list[float]:
        """The grace seconds of the stop requests that wait."""
        found = []
        for word in os.read(self.stop_requests, 1 << 12).split():
            with suppress(ValueError):  # not from us
                found.append(max(0.0, float(word)))
        return found

    def release(self) -> None:
        """Say that the supervisor is done."""
        os.close(self._alive)

    def _lock_alive(self) -> int:
        file = self.open("alive", os.O_RDWR | os.O_CREAT)
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
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=self._directory, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, "the command was started before", name)

    def _make_fifo(self, name: str) -> int:
        with suppress(FileNotFoundError):  # usual: only a start that failed leaves one
            os.unlink(name, dir_fd=self._directory)
        os.mkfifo(name, 0o600, dir_fd=self._directory)
        # Open for writing too, so that it never reads as "all writers have gone".
        return self.open(name, os.O_RDWR | os.O_NONBLOCK)


def _is_there(directory: int, name: str, file: int) -> bool:
    """Whether this open file still has this name."""
    try:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file))
