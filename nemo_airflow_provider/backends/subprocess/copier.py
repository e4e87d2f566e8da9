"""Copying a command's output from its pipes to a file of frames. Standard library only."""

from __future__ import annotations

import fcntl
import os
import select
import time
from contextlib import suppress

from nemo_airflow_provider.backends.subprocess.frames import HEADER, MAX_DATA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_SECONDS = 0.25
_PIPE_BYTES = 1 << 20  # most that a pipe of ours can hold
_OPEN_PIPE_SECONDS = 1.0


class Copier:
    """Waits for output and for other descriptors at once; copies the one, names the other.

    When the disk takes no more, what was read is kept, nothing more is read, and the command blocks on its pipe
    until there is room again.

    :param file: the output file, opened for appending
    :param others: descriptors that `turn` names when they can be read
    """

    def __init__(self, file: int, others: list[int]) -> None:
        self._file = file
        self._rest = b""
        self._copied = 0
        self._sources: dict[int, int] = {}
        self._everything = select.poll()
        self._all_but_output = select.poll()
        for other in others:
            self._everything.register(other, select.POLLIN)
            self._all_but_output.register(other, select.POLLIN)

    def add(self, pipe: int, stream: int) -> None:
        """Copy from this pipe too, as frames of that stream number."""
        # A larger pipe lets a talkative command run ahead of us. Where there is none (not Linux, or the user's
        # share of pipe memory is used up) the usual size will do.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(pipe, False)
        self._sources[pipe] = stream
        self._everything.register(pipe, select.POLLIN)

    def turn(self, seconds: float) -> list[int]:
        """Wait for something to do, at most so long, and copy what is there, one read from each pipe.

        :return: the other descriptors that can be read
        """
        self._flush()
        poll = self._everything
        if self._rest:
            poll, seconds = self._all_but_output, min(seconds, RETRY_SECONDS)
        others = []
        for file, _ in poll.poll(max(0.0, seconds) * 1000):
            if file not in self._sources:
                others.append(file)
            elif not self._rest:
                self._copy(file)
        return others

    def drain(self, turn: Callable[[float], None], is_hopeless: Callable[[], bool]) -> bool:
        """Copy all that stands in the pipes, however slow the disk is.

        Whoever escaped and keeps them open is waited for one second. What it writes later cannot be told from what
        stood there, so no more is copied then than the pipes can hold.

        :param turn: calls ours, and sees to the other descriptors
        :param is_hopeless: whether to wait no longer for room on a full disk
        :return: whether everything was copied
        """
        deadline = time.monotonic() + _OPEN_PIPE_SECONDS
        while self._sources and (left := deadline - time.monotonic()) > 0:
            turn(left)
        most = self._copied + 2 * _PIPE_BYTES
        empty = False
        while self._rest or (self._sources and not empty and self._copied < most):
            if self._rest and is_hopeless():
                return False
            before = self._copied
            turn(RETRY_SECONDS if self._rest else 0)
            empty = self._copied == before and not self._rest
        return True

    def _copy(self, pipe: int) -> None:
        try:
            data = os.read(pipe, MAX_DATA)
        except BlockingIOError:
            return
        if data:
            self._copied += len(data)
            self._rest = HEADER.pack(time.time_ns() // 1000, self._sources[pipe], len(data)) + data
            self._flush()
            return
        self._everything.unregister(pipe)
        del self._sources[pipe]
        os.close(pipe)

    def _flush(self) -> None:
        while self._rest:
            try:
                written = os.write(self._file, self._rest)
            except OSError:
                return
            self._rest = self._rest[written:]
