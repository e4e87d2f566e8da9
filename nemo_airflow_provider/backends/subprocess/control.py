"""The supervisor's side of the control directory: lock, stop requests, notes. Standard library only.

What is written or read goes through descriptors that are held, so a workload that replaces names here changes nothing
for its supervisor, which ends it: nobody else could find it any more.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress

from nemo_airflow_provider.backends.subprocess.reach import (
    GENTLY,
    grant,
    is_absent,
    open_directory,
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
#: The stop requests once more: what stands in the FIFO may have been read by somebody else, or found no room.
STOPS_FILE = "stops"
#: There while somebody wishes the workload to be frozen, and while it is.
FREEZE_FILE = "freeze"
FROZEN_FILE = "frozen"

_LOCK_SECONDS = 5.0
_MOST_BYTES = 1 << 12  # of requests at once
_END_FILE = ".exit.json.new"
_END_BYTES = 512


class Control:
    """Holds the lock on `alive`, the FIFO `stop` and the file `output` in the control directory of a work directory.

    :param work: the open work directory
    :param root: where its path begins
    :param parts: the names on the way to it
    :raises OSError: another supervisor is, or was, here; or the files cannot be made
    """

    def __init__(self, work: int, root: str, parts: list[str]) -> None:
        self._path = (root, *parts)
        self._directory = open_directory(work, CONTROL)
        self._alive = self._lock_alive()
        self._refuse_second_run()
        self.stop_requests = self._make_fifo("stop")
        self._end = self._reserve_end()
        self.output = open_regular(self._directory, "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        #: What must stay as it is for others to find the workload, stop it and read its output.
        self._ours = {name: self._stat(name) for name in ("alive", "stop", "output", WORKLOAD_FILE)}

    def note_start(self, record: dict[str, Any]) -> None:
        """Write `started`: the record, and which file is our `alive`."""
        self._note("started", {**record, "alive": os.fstat(self._alive).st_ino})
        self._ours["started"] = self._stat("started")

    def forget_start(self) -> None:
        """Take `started` back."""
        os.unlink("started", dir_fd=self._directory)

    def note_end(self, record: dict[str, Any]) -> None:
        """Write `exit.json`, into the room that was kept for it where nobody has taken that away.

        :raises OSError: it cannot be written, for now or for good
        """
        grant(self._directory)
        if self._is_there(_END_FILE) and os.path.samestat(self._stat(_END_FILE), os.fstat(self._end)):
            os.pwrite(self._end, json.dumps(record).encode().ljust(_END_BYTES), 0)
            os.rename(_END_FILE, "exit.json", src_dir_fd=self._directory, dst_dir_fd=self._directory)
        else:
            self._note("exit.json", record)

    def forgotten(self) -> bool:
        """Whether nobody can find this workload, or believe its files, any more: one of them, or a directory on the
        way to them, was removed or replaced, or there is an end that we did not note. Modes are given back."""
        try:
            with opened(*self._path, CONTROL) as found:
                reached = os.path.samestat(os.fstat(found), os.fstat(self._directory))
            ours = all(os.path.samestat(self._stat(name), made) for name, made in self._ours.items())
            return not reached or not ours or self._is_there("exit.json")
        except PermissionError:  # modes are being changed just now
            return False
        except OSError as error:
            return is_absent(error)  # a disk that does not answer is not the workload's doing

    def graces(self) -> list[float]:
        """The grace seconds of the stop requests that wait in the FIFO."""
        try:
            return _graces(os.read(self.stop_requests, _MOST_BYTES))
        except BlockingIOError:  # somebody else has read them
            return []

    def noted_graces(self) -> list[float]:
        """The grace seconds of all stop requests so far; see `STOPS_FILE`."""
        with suppress(OSError):  # usual: there was none
            file = open_regular(self._directory, STOPS_FILE, os.O_RDONLY)
            try:
                return _graces(os.read(file, _MOST_BYTES))
            finally:
                os.close(file)
        return []

    def freeze_is_wished(self) -> bool:
        """Whether the workload is to stand still."""
        return self._is_there(FREEZE_FILE)

    def note_frozen(self, frozen: bool) -> None:
        """Say whether all of it stands still.

        :raises OSError: a full disk
        """
        if frozen:
            os.close(open_regular(self._directory, FROZEN_FILE, os.O_WRONLY | os.O_CREAT))
            return
        with suppress(FileNotFoundError):  # the workload may have removed it
            os.unlink(FROZEN_FILE, dir_fd=self._directory)

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
        for stale in (name, STOPS_FILE, FREEZE_FILE, FROZEN_FILE):
            with suppress(FileNotFoundError):  # usual: only a start that failed leaves one
                os.unlink(stale, dir_fd=self._directory)
        os.mkfifo(name, 0o600, dir_fd=self._directory)
        # Open for writing too, so that it never reads as "all writers have gone".
        return os.open(name, os.O_RDWR | GENTLY, dir_fd=self._directory)

    def _reserve_end(self) -> int:
        """What becomes `exit.json`, with its room: the command may fill the disk."""
        with suppress(FileNotFoundError):  # usual: only a start that failed leaves one
            os.unlink(_END_FILE, dir_fd=self._directory)
        file = open_regular(self._directory, _END_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if os.write(file, b" " * _END_BYTES) != _END_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), _END_FILE)
        return file

    def _note(self, name: str, record: dict[str, Any]) -> None:
        grant(self._directory)
        write_file(self._directory, name, json.dumps(record).encode())

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)

    def _is_there(self, name: str) -> bool:
        try:
            self._stat(name)
        except FileNotFoundError:
            return False
        return True


def _graces(words: bytes) -> list[float]:
    found = []
    for word in words.split():
        with suppress(ValueError):  # not from us
            found.append(float(word))
    return [grace for grace in found if 0 <= grace < float("inf")]
