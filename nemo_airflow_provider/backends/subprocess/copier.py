"""Copying a command's output from its pipes to a file of frames. Standard library only."""

from __future__ import annotations

import fcntl
import os
import select
import time
from contextlib import suppress

from nemo_airflow_provider.backends.subprocess.frames import HEADER, MAX_DATA

#: Most that a pipe of ours can hold.
PIPE_BYTES = 1 << 20
_RETRY_SECONDS = 0.25


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
        #: bytes read from the pipes so far
        self.copied = 0
        self._sources: dict[int, int] = {}
        self._everything = select.poll()
        self._all_but_output = select.poll()
        for other in others:
            self._everything.register(other, select.POLLIN)
            self._all_but_output.register(other, select.POLLIN)

    @property
    def full(self) -> bool:
        """Whether something waits for room on the disk."""
        return bool(self._rest)

    @property
    def open(self) -> bool:
        """Whether somebody may still write into a pipe."""
        return bool(self._sources)

    def add(self, pipe: int, stream: int) -> None:
        """Copy from this pipe too, as frames of that stream number."""
        # A larger pipe lets a talkative command run ahead of us. Where there is none (not Linux, or the user's
        # share of pipe memory is used up) the usual size will do.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(pipe, False)
        self._sources[pipe] = stream
        self._everything.register(pipe, select.POLLIN)

    def turn(self, seconds: float) -> list[int]:
        """Wait for something to do, at most so long, and copy what is there, one read from each pipe.

        :return: the other descriptors that can be read
        """
        self._flush()
        poll = self._everything
        if self.full:
            poll, seconds = self._all_but_output, min(seconds, _RETRY_SECONDS)
        others = []
        for file, _ in poll.poll(max(0.0, seconds) * 1000):
            if file not in self._sources:
                others.append(file)
            elif not self.full:
                self._copy(file)
        return others

    def _copy(self, pipe: int) -> None:
        try:
            data = os.read(pipe, MAX_DATA)
        except BlockingIOError:
            return
        if data:
            self.copied += len(data)
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
