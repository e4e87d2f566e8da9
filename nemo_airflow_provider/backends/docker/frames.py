"""A container's output as the engine hands it out: frames of one record each, with the engine's time; pure.

A frame is a header of 8 bytes (stream, length), and a payload that begins with the time (Engine API, "attach"). A
record is a line, or a part of at most 16 KiB of a longer one; all parts of a line have the time of its first.

A *position* is a time to ask the engine from, and how many frames from there on are known. Two readers deliver frames
in an order of their own, so records may be written a little later than their times say. Hence the time in a position
stays behind the newest by a margin, and behind the first part of a line that has not ended: nothing that is still to
come is older.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from nemo_airflow_provider.model.logline import Stream

_HEADER = 8
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
#: What the engine itself has to say, such as that it cannot read its own file.
_ENGINE = 3
NANO = 1_000_000_000
#: No record is written later than this after its time.
MARGIN_NANOS = 2 * NANO
#: While a line is open, each record after its first is remembered. Beyond so many the line holds nothing up any more:
#: where the connection breaks off then, the rest of that line is not found again.
_MOST_KNOWN = 500_000
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)")


@dataclass(frozen=True, slots=True)
class Frame:
    """One record.

    :param nanos: when the engine saw the line begin, since 1970 UTC
    """

    stream: Stream
    nanos: int
    data: bytes


class Frames:
    """Cuts what arrives into frames.

    :param skip: how many to leave out at the beginning, unread
    """

    def __init__(self, skip: int = 0) -> None:
        #: What the engine said beside the output; empty when it said nothing.
        self.complaint = ""
        self._left = b""
        self._skip = skip
        self._second = (b"", 0)
        self._nanos = 0

    def take(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with these bytes."""
        data = self._left + data if self._left else data
        begin, end = 0, len(data)
        while begin + _HEADER <= end:
            stop = begin + _HEADER + int.from_bytes(data[begin + 4 : begin + 8], "big")
            if stop > end:
                break
            stream = _STREAMS.get(data[begin])
            if stream is not None and self._skip:
                self._skip -= 1
            elif stream is not None:
                yield self._frame(stream, data[begin + _HEADER : stop])
            elif data[begin] == _ENGINE:
                self.complaint = " ".join(data[begin + _HEADER : stop].decode("utf-8", "replace").split())
            begin = stop
        self._left = data[begin:]

    def _frame(self, stream: Stream, record: bytes) -> Frame:
        text, _, payload = record.partition(b" ")
        match = _TIME.fullmatch(text)
        if match is None:
            # No record of a healthy engine; all of it is output, of the time of the one before.
            return Frame(stream, self._nanos, record)
        if match[1] != self._second[0]:
            moment = datetime.strptime(match[1].decode(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
            self._second = (match[1], int(moment.timestamp()) * NANO)
        self._nanos = self._second[1] + int((match[2] or b"0").ljust(9, b"0"))
        return Frame(stream, self._nanos, payload)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on.

    :param since: nanoseconds since 1970 UTC from which the engine is asked
    :param known: how many frames from there on are known
    """

    since: int = 0
    known: int = 0

    @classmethod
    def parse(cls, value: Any) -> Position:
        """A position that was stored; anything else is the beginning."""
        if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
            return cls(*value)
        return cls()

    def dump(self) -> list[int]:
        """As it is stored."""
        return [self.since, self.known]


class Track:
    """Counts frames from a position on; what it says depends on the frames alone, not on where reading began."""

    def __init__(self, position: Position) -> None:
        self._since = position.since
        self._newest = 0
        #: Times of the known frames from `_since` on, as a heap: the engine's order is not quite theirs.
        self._times: list[int] = []
        #: Times of the lines that have begun and not ended, by stream.
        self._open: dict[Stream, int] = {}

    @property
    def position(self) -> Position:
        """The position behind all that it knows."""
        return Position(self._since, len(self._times))

    def take(self, frame: Frame) -> Position:
        """Know one more; the position behind it."""
        heappush(self._times, frame.nanos)
        self._newest = max(self._newest, frame.nanos)
        if frame.data.endswith(b"\n"):
            self._open.pop(frame.stream, None)
        else:
            self._open.setdefault(frame.stream, frame.nanos)
        if len(self._times) > _MOST_KNOWN:
            self._open.clear()
        self._since = max(self._since, min([self._newest - MARGIN_NANOS, *self._open.values()]))
        while self._times[0] < self._since:
            heappop(self._times)
        return self.position
