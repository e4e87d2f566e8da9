"""Reading an output file as it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from nemo_airflow_provider.backends.base import Chunk, Signal
from nemo_airflow_provider.backends.subprocess.frames import parse
from nemo_airflow_provider.backends.subprocess.workdir import WorkDirectory

_BLOCK = 1 << 20  # bytes; one whole frame must fit

_PAUSE_SECONDS = (0.01, 0.1)
_SIGN_OF_LIFE_SECONDS = 0.5
_LAST_WORDS_SECONDS = 0.3


def read(work: WorkDirectory, task: str, position: int, stop: Signal) -> Iterator[Chunk | None]:
    """The frames from `position` to the workload's end.

    :param position: offset of a frame, or of the end of what is there
    """
    pause, longest = _PAUSE_SECONDS
    spoken_at = time.monotonic()
    output = _Output(work)
    try:
        while not stop.is_set():
            # Asked before reading: what is in the file after the end is all there will ever be.
            final = _is_over(work, stop)
            begin = position
            for chunk in output.available(task, position, final):
                if stop.is_set():
                    return
                yield chunk
                position = chunk.end
            if final:
                return
            now = time.monotonic()
            if position > begin:
                pause, spoken_at = _PAUSE_SECONDS[0], now
            elif now - spoken_at >= _SIGN_OF_LIFE_SECONDS:
                yield None
                spoken_at = now
            stop.wait(pause)
            pause = min(pause * 1.5, longest)
    finally:
        output.close()


def _is_over(work: WorkDirectory, stop: Signal) -> bool:
    """Whether no more can come: it has ended, is lost, or was never started."""
    if work.being_started() or work.supervised():
        return False
    if work.ended() is None:
        # Its files may have been replaced while its supervisor lives: that copies what the pipes still hold.
        stop.wait(_LAST_WORDS_SECONDS)
    return True


class _Output:
    """The output file, held from the first look on: it can be read to its end whatever becomes of its name."""

    def __init__(self, work: WorkDirectory) -> None:
        self._work = work
        self._file: int | None = None

    def available(self, task: str, position: int, final: bool) -> Iterator[Chunk]:
        """What is there from a position on."""
        if self._file is None:
            self._file = self._work.open_output()
        if self._file is None:
            return
        while block := os.pread(self._file, _BLOCK, position):
            # Only in the last block is a frame cut short by its writer and not by the block.
            frames = parse(block, position, final and len(block) < _BLOCK)
            if not frames:
                return
            for frame in frames:
                yield Chunk(task, frame.stream, frame.micros, frame.data, frame.start, frame.end)
            position = frames[-1].end

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
