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


def read(work: WorkDirectory, task: str, position: int, stop: Signal) -> Iterator[Chunk | None]:
    """The frames from `position` to the workload's end.

    :param position: offset of a frame, or of the end of what is there
    """
    pause, longest = _PAUSE_SECONDS
    spoken_at = time.monotonic()
    while not stop.is_set():
        # Asked before reading: what is in the file after the end is all there will ever be.
        final = _is_over(work)
        begin = position
        for chunk in _available(work, task, position, final):
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


def _is_over(work: WorkDirectory) -> bool:
    """Whether no more can come: it has ended, is lost, or was never started."""
    if work.ended() is not None:
        return True
    return not work.being_started() and not work.supervised()


def _available(work: WorkDirectory, task: str, position: int, final: bool) -> Iterator[Chunk]:
    file = work.open_output()
    if file is None:
        return
    try:
        while block := os.pread(file, _BLOCK, position):
            # Only in the last block is a frame cut short by its writer and not by the block.
            frames = parse(block, position, final and len(block) < _BLOCK)
            if not frames:
                return
            for frame in frames:
                yield Chunk(task, frame.stream, frame.micros, frame.data, frame.start, frame.end)
            position = frames[-1].end
    finally:
        os.close(file)
