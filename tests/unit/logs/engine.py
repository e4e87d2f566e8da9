"""An engine's output as test data: one list of writes, delivered in any cut, from any position."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.logs.commit import load
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.model.logline import Stream

STREAM = StreamId("default", "2Kq9abc", 0, 0)
BEGAN = 1_700_000_000_000_000
TASK = "task-0123456789ab"


@dataclass(frozen=True)
class Write:
    """Bytes that one task wrote at once."""

    task: str
    stream: Stream
    data: bytes


@dataclass
class Engine:
    """Delivers `writes`; a position counts their bytes. Chunks never span two writes.

    :param chunk_bytes: longest chunk
    """

    writes: Sequence[Write]
    chunk_bytes: int = 65536

    def read(self, position: int | None, stop: threading.Event) -> Iterator[Chunk | None]:
        """The contract of `Backend.read_logs`."""
        at = 0
        for write in self.writes:
            skipped = min(max((position or 0) - at, 0), len(write.data))
            for offset in range(skipped, len(write.data), self.chunk_bytes):
                if stop.is_set():
                    return
                data = write.data[offset : offset + self.chunk_bytes]
                start = at + offset
                yield Chunk(write.task, write.stream, BEGAN + start, data, start, start + len(data))
            at += len(write.data)


def chunk(data: bytes, start: int = 0, *, task: str = TASK, stream: Stream = "stdout") -> Chunk:
    """A chunk at byte `start`."""
    return Chunk(task, stream, BEGAN + start, data, start, start + len(data))


def is_finished(root: Path) -> bool:
    """Whether the newest start's output is stored to its last byte."""
    record = load(str(STREAM.path(root)))
    return record is not None and record.finished
