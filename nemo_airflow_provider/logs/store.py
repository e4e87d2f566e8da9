"""Writing a log stream: one writer, lines in arrival order, each batch committed with its source position.

The format, and why it survives a kill at any moment, is in `docs/design/log-store.md`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from json.encoder import encode_basestring
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from nemo_airflow_provider.logs.commit import Commit, TaskCount, slot_path
from nemo_airflow_provider.logs.layout import (
    BLOCK_LINES,
    RECORD,
    SEGMENT_BYTES,
    StreamBusy,
    StreamDamaged,
    StreamId,
    StreamRemoved,
    index_path,
    line_count,
    mark_superseded,
    remove_run,
    segment_path,
    stored_runs,
    superseded_start,
    task_path,
)
from nemo_airflow_provider.logs.recovery import lock_stream, recover
from nemo_airflow_provider.model.logline import Stream, iso

__all__ = [
    "Line",
    "StreamBusy",
    "StreamDamaged",
    "StreamId",
    "StreamRemoved",
    "StreamWriter",
    "line_count",
    "mark_superseded",
    "remove_run",
    "stored_runs",
    "superseded_start",
]

#: (micros, task, stream, message) of a line that has no number yet
Line = tuple[int, str, Stream, str]

_LAST_MICROS = 253_402_300_799_999_999  # the end of the year 9999: later times have no ISO form


def encode_lines(first_seq: int, lines: Sequence[Line]) -> bytes:
    """The lines as JSON lines, numbered from `first_seq`."""
    texts: list[str] = []
    last: tuple[int, str, str] | None = None
    middle = ""
    for seq, (micros, task, stream, message) in enumerate(lines, first_seq):
        origin = (micros, task, stream)
        if origin != last:
            last = origin
            time = iso(min(max(micros, 0), _LAST_MICROS))
            middle = f',"timestamp":"{time}","task":{encode_basestring(task)},"stream":"{stream}","message":'
        texts.append(f'{{"seq":{seq}{middle}{encode_basestring(message)}}}\n')
    return "".join(texts).encode("utf-8", "replace")


class _TaskBlocks:
    """The block list of one task while it is written."""

    def __init__(self, records: int = 0, lines: int = 0, last_block: int = -1) -> None:
        self.stored_records = records
        self.lines = lines
        self._last_block = last_block
        self.pending = bytearray()

    @property
    def records(self) -> int:
        return self.stored_records + len(self.pending) // RECORD.size

    def add(self, block: int, count: int) -> None:
        if block != self._last_block:
            self.pending += RECORD.pack(block, self.lines)
            self._last_block = block
        self.lines += count

    def stored(self) -> None:
        self.stored_records = self.records
        self.pending.clear()


class StreamWriter:
    """The one writer of a stream. `append` only prepares; `commit` writes and makes it readable.

    A `commit` that fails with an OSError changes nothing for readers and may be called again: it writes the
    same bytes to the same places.
    """

    def __init__(self, directory: str, lock: int, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Use `open`. `lock` is the locked descriptor, closed by `close`."""
        self._directory = directory
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._descriptors: dict[str, int] = {}
        record, last_blocks = recover(directory)
        self._committed = record
        self._next_seq = record.next_seq
        self._segment = record.segment
        self._end = record.end
        self._tasks = {
            task.name: _TaskBlocks(task.records, task.lines, last_block)
            for task, last_block in zip(record.tasks, last_blocks, strict=True)
        }
        self._data: dict[int, tuple[int, bytearray]] = {}
        self._index = bytearray()

    @classmethod
    def open(cls, root: Path, stream: StreamId, *, segment_bytes: int = SEGMENT_BYTES) -> Self:
        """Lock the stream, and cut its files back to what was committed.

        :raises StreamBusy: another writer holds it
        :raises StreamDamaged: what was committed is not there any more
        """
        path = stream.path(root)
        lock = lock_stream(path, root)
        try:
            return cls(str(path), lock, segment_bytes=segment_bytes)
        except BaseException:
            os.close(lock)
            raise

    @property
    def next_seq(self) -> int:
        """Number of the next line, appended ones counted."""
        return self._next_seq

    @property
    def source(self) -> Any:
        """What the last commit stored; None for a new stream."""
        return self._committed.source

    @property
    def finished(self) -> bool:
        """Whether the last commit said that nothing more comes."""
        return self._committed.finished

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not committed."""
        return sum(len(data) for _, data in self._data.values())

    def append(self, lines: Sequence[Line]) -> None:
        """Number the lines and prepare them for the next commit."""
        position = 0
        while position < len(lines):
            block, used = divmod(self._next_seq, BLOCK_LINES)
            part = lines[position : position + BLOCK_LINES - used]
            if not used:
                self._begin_block()
            data = encode_lines(self._next_seq, part)
            self._data.setdefault(self._segment, (self._end, bytearray()))[1].extend(data)
            self._end += len(data)
            self._next_seq += len(part)
            for task, count in Counter(map(itemgetter(1), part)).items():
                self._tasks.setdefault(task, _TaskBlocks()).add(block, count)
            position += len(part)

    def _begin_block(self) -> None:
        # Segments change between blocks only, so a block is one span of one file.
        if self._end >= self._segment_bytes:
            self._segment, self._end = self._segment + 1, 0
        self._index += RECORD.pack(self._segment, self._end)

    def commit(self, source: Any, *, finished: bool = False) -> None:
        """Write what was appended, then the record that makes it count.

        :param source: JSON value that a later writer finds as `source`
        :param finished: the source has nothing more
        :raises OSError: nothing counts yet; call again with the same or a newer `source`
        :raises StreamRemoved: the files were deleted
        """
        if os.fstat(self._lock).st_nlink == 0:
            raise StreamRemoved(f"The log in {self._directory} was deleted while it was written.")
        try:
            self._write_pending()
            record = Commit(
                self._committed.counter + 1,
                self._next_seq,
                self._segment,
                self._end,
                finished,
                tuple(TaskCount(name, task.records, task.lines) for name, task in self._tasks.items()),
                source,
            )
            self._write(slot_path(self._directory, record.counter), 0, record.encode())
        except FileNotFoundError as error:
            raise StreamRemoved(f"The log in {self._directory} was deleted while it was written.") from error
        self._committed = record
        self._data.clear()
        self._index.clear()
        for task in self._tasks.values():
            task.stored()

    def _write_pending(self) -> None:
        for segment, (offset, data) in self._data.items():
            self._write(segment_path(self._directory, segment), offset, data)
            if segment != self._segment:
                self._forget(segment_path(self._directory, segment))
        blocks = -(-self._committed.next_seq // BLOCK_LINES)
        self._write(index_path(self._directory), blocks * RECORD.size, self._index)
        for number, task in enumerate(self._tasks.values()):
            if task.pending:
                path = task_path(self._directory, number)
                self._write(path, task.stored_records * RECORD.size, task.pending)
                self._forget(path)  # a gang may have more tasks than a process may have files

    def _write(self, path: str, offset: int, data: bytes | bytearray) -> None:
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._descriptors[path] = descriptor
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], offset + written)

    def _forget(self, path: str) -> None:
        os.close(self._descriptors.pop(path))

    def close(self) -> None:
        """Let go of the stream; what was not committed is dropped."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
