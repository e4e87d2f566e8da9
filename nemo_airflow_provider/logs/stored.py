"""Reading one log stream as it is at one moment, all tasks or one, by ordinal and without scanning."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from json.encoder import encode_basestring
from pathlib import Path
from typing import Self

from nemo_airflow_provider.logs import commit
from nemo_airflow_provider.logs.layout import (
    BLOCK_LINES,
    RECORD,
    StreamId,
    index_path,
    segment_path,
    task_path,
)
from nemo_airflow_provider.model.logline import LogLine, micros_of

#: Most bytes of lines read at once (but at least one line).
READ_BYTES = 8 * 1024 * 1024


class StoredStream:
    """The committed lines of a stream that match a task filter, numbered 0 … `total` − 1 (their ordinals).

    Files that are missing or shorter than the commit says (the run is being deleted) just end the lines.
    """

    def __init__(self, root: Path, stream: StreamId, task: str | None = None) -> None:
        self._directory = str(stream.path(root))
        self._descriptors: dict[str, int] = {}
        self._segment_path = ""
        record = commit.load(self._directory) or commit.Commit()
        self._commit = record
        self._blocks = -(-record.next_seq // BLOCK_LINES)
        self._records = 0
        self._task_path = ""
        self._needle = b""
        #: lines that match
        self.total = record.next_seq
        if task is not None:
            self.total = 0
            for number, count in enumerate(record.tasks):
                if count.name == task:
                    self._task_path = task_path(self._directory, number)
                    self._records, self.total = count.records, count.lines
            # A quote inside a JSON text is escaped, so this stands in a line only as its own key and value.
            self._needle = f',"task":{encode_basestring(task)},'.encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def ordinal(self, seq: int) -> int:
        """How many matching lines come before the line number `seq`."""
        if not self._needle:
            return min(seq, self._commit.next_seq)
        block, used = divmod(seq, BLOCK_LINES)
        place = self._last_record(lambda record: record[0] <= block)
        if place < 0:
            return 0
        listed, before = self._record(self._task_path, place)
        if listed == block:
            return before + sum(self._needle in line for line in self._block(block)[:used])
        return self._record(self._task_path, place + 1)[1] if place + 1 < self._records else self.total

    def read(self, first: int, count: int, max_bytes: int) -> list[LogLine]:
        """Matching lines from ordinal `first` on: `count`, or fewer when they pass `max_bytes` (but one)."""
        count = min(count, self.total - first)
        if count <= 0:
            return []
        if self._needle:
            return self._read_listed(first, count, max_bytes)
        taken = _Taken(count, max_bytes)
        for block in range(first // BLOCK_LINES, self._blocks):
            lines = self._block(block)[max(first - block * BLOCK_LINES, 0) :]
            if not lines or not taken.add(lines):
                break
        return taken.decode()

    def _read_listed(self, first: int, count: int, max_bytes: int) -> list[LogLine]:
        taken = _Taken(count, max_bytes)
        place = self._last_record(lambda record: record[1] <= first)
        for number in range(place, self._records):
            block, before = self._record(self._task_path, number)
            lines = [line for line in self._block(block) if self._needle in line][max(first - before, 0) :]
            if not lines or not taken.add(lines):
                break
        return taken.decode()

    def _last_record(self, matches: Callable[[tuple[int, int]], bool]) -> int:
        """The last record of the task's list that matches; both columns only grow. -1: none."""
        low, high = 0, self._records
        while low < high:
            middle = (low + high) // 2
            if matches(self._record(self._task_path, middle)):
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _block(self, number: int) -> list[bytes]:
        """The committed lines of a block, undecoded."""
        segment, start = self._record(index_path(self._directory), number)
        path = self._segment(segment)
        end = self._commit.end
        if number + 1 < self._blocks:
            next_segment, end = self._record(index_path(self._directory), number + 1)
            if next_segment != segment:
                end = self._size(path)
        return self._pread(path, end - start, start).split(b"\n")[:-1]

    def _segment(self, number: int) -> str:
        """The path of a segment; the one used before is closed, as a task's lines may lie in thousands."""
        path = segment_path(self._directory, number)
        if path != self._segment_path:
            descriptor = self._descriptors.pop(self._segment_path, -1)
            if descriptor >= 0:
                os.close(descriptor)
            self._segment_path = path
        return path

    def _size(self, path: str) -> int:
        descriptor = self._open(path)
        return os.fstat(descriptor).st_size if descriptor >= 0 else 0

    def _record(self, path: str, number: int) -> tuple[int, int]:
        raw = self._pread(path, RECORD.size, number * RECORD.size)
        if len(raw) < RECORD.size:
            return 0, 0
        first, second = RECORD.unpack(raw)
        return first, second

    def _pread(self, path: str, size: int, offset: int) -> bytes:
        descriptor = self._open(path)
        if descriptor < 0 or size <= 0:
            return b""
        data = os.pread(descriptor, size, offset)
        while 0 < len(data) < size:
            more = os.pread(descriptor, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def _open(self, path: str) -> int:
        """A descriptor, kept until the end; -1 when there is no such file."""
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                return -1
            self._descriptors[path] = descriptor
        return descriptor


class _Taken:
    """Lines taken so far, within a number and a size."""

    def __init__(self, count: int, max_bytes: int) -> None:
        self._lines: list[bytes] = []
        self._count = count
        self._bytes = max_bytes

    def add(self, lines: list[bytes]) -> bool:
        """Take what there is room for; whether there is room for more."""
        for line in lines:
            self._bytes -= len(line)
            if self._lines and (len(self._lines) == self._count or self._bytes < 0):
                return False
            self._lines.append(line)
        return len(self._lines) < self._count

    def decode(self) -> list[LogLine]:
        return [_decode(line) for line in self._lines]


def _decode(raw: bytes) -> LogLine:
    line = json.loads(raw)
    return LogLine(line["seq"], micros_of(line["timestamp"]), line["task"], line["stream"], line["message"])


def read_from(root: Path, stream: StreamId, seq: int, limit: int) -> list[LogLine]:
    """Committed lines of a stream from number `seq` on, at most `limit`; fewer when they pass 8 MiB."""
    with StoredStream(root, stream) as stored:
        return stored.read(seq, limit, READ_BYTES)
