"""The commit record of a log stream: how far its files are true, and where the engine's output goes on.

Two files, `commit-0` and `commit-1`, are overwritten in turn, so a kill in mid-write spoils only the older
record. A record counts when its checksum is right; the higher counter wins.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

_MAGIC = b"NLS1"
#: magic, flags, counter, next_seq, segment, end, length of the JSON part, checksum of all the rest
_HEADER = struct.Struct("<4sIQQQQII")
_CHECKSUM = struct.Struct("<I")
_FINISHED = 1
_FIRST_READ_BYTES = 65536
#: Both records of a live stream are torn only when the reader was interrupted between two commits.
_READ_TRIES = 5


@dataclass(frozen=True, slots=True)
class TaskCount:
    """One task of a stream; its place in `Commit.tasks` is its number.

    :param name: task name
    :param records: records in the task's block list
    :param lines: lines of the task
    """

    name: str
    records: int
    lines: int


@dataclass(frozen=True, slots=True)
class Commit:
    """What is true of a stream.

    :param counter: grows with every record written
    :param next_seq: number of lines
    :param segment: number of the segment file that the next line goes to (unless it is full)
    :param end: bytes of that file that count
    :param finished: nothing more comes from the source
    :param tasks: see `TaskCount`
    :param source: the writer's own JSON value: where to go on reading the engine
    """

    counter: int = 0
    next_seq: int = 0
    segment: int = 0
    end: int = 0
    finished: bool = False
    tasks: tuple[TaskCount, ...] = ()
    source: Any = None

    def encode(self) -> bytes:
        """The record as bytes."""
        tasks = [[task.name, task.records, task.lines] for task in self.tasks]
        body = json.dumps({"tasks": tasks, "source": self.source}, separators=(",", ":")).encode()
        flags = _FINISHED if self.finished else 0
        fields = (_MAGIC, flags, self.counter, self.next_seq, self.segment, self.end, len(body))
        head = _HEADER.pack(*fields, 0)[: -_CHECKSUM.size]
        return head + _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head))) + body


def slot_path(directory: str, counter: int) -> str:
    """The file that the record with this counter lives in."""
    return f"{directory}/commit-{counter % 2}"


def load(directory: str) -> Commit | None:
    """The newest whole record, or None when there is none: nothing was ever committed, or `is_damaged`."""
    for _ in range(_READ_TRIES):
        raw = [_read(slot_path(directory, slot)) for slot in (0, 1)]
        whole = [record for record in raw if _is_whole(record)]
        if whole:
            return _decode(max(whole, key=lambda record: _HEADER.unpack_from(record)[2]))
        if not any(raw):
            return None
    return None


def is_damaged(directory: str) -> bool:
    """Whether neither of two records can be read. Ask under the stream's lock: nobody writes one meanwhile.

    A single torn record is no damage: the first commit was cut short, and nothing was ever true of the stream.
    """
    raw = [_read(slot_path(directory, slot)) for slot in (0, 1)]
    return all(raw) and not any(map(_is_whole, raw))


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        raw = os.pread(descriptor, _FIRST_READ_BYTES, 0)
        if len(raw) < _HEADER.size:
            return raw
        wanted = _HEADER.size + _HEADER.unpack_from(raw)[6]
        while len(raw) < wanted:
            more = os.pread(descriptor, wanted - len(raw), len(raw))
            if not more:
                break
            raw += more
        return raw[:wanted]
    finally:
        os.close(descriptor)


def _is_whole(raw: bytes) -> bool:
    if len(raw) < _HEADER.size:
        return False
    magic, *_, length, checksum = _HEADER.unpack_from(raw)
    if magic != _MAGIC or len(raw) != _HEADER.size + length:
        return False
    head = raw[: _HEADER.size - _CHECKSUM.size]
    return bool(zlib.crc32(raw[_HEADER.size :], zlib.crc32(head)) == checksum)


def _decode(raw: bytes) -> Commit:
    _, flags, counter, next_seq, segment, end, *_ = _HEADER.unpack_from(raw)
    body = json.loads(raw[_HEADER.size :])
    tasks = tuple(TaskCount(*task) for task in body["tasks"])
    return Commit(counter, next_seq, segment, end, bool(flags & _FINISHED), tasks, body["source"])
