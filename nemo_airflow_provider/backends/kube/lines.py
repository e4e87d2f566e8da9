"""A container's output as a kubelet hands it out: lines with their times, cut into pieces; pure.

A line comes as its time and its text; the parts of a long one are joined. Of a line that began before the time asked
from, only the rest comes, without a time; its beginning is known, so it is left out.

Asked from a whole second, the kubelet goes through the file that it writes to at present, and leaves out each older
line. Two writers share the file, so that lines may be a little out of the order of their times. Hence the second in a
position stays behind the newest time by a margin; a line that comes later than that (the clock was set back) is not
read again.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

NANO = 1_000_000_000
#: No line is written later than this after its time.
MARGIN_SECONDS = 10
#: Of text at once; what is longer comes in several pieces, so that memory stays bounded.
PIECE_BYTES = 1 << 16
_SECOND_BYTES = 19
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_MOST_WORDS = 1000


class Piece(NamedTuple):
    """A line, or a part of a long one.

    :param nanos: when the node saw its line begin, since 1970 UTC
    :param data: with the newline, where it is the line's last and the line has one
    """

    nanos: int
    data: bytes


class Lines:
    """Cuts what arrives into pieces: the same ones, however it arrives."""

    def __init__(self) -> None:
        self._left = b""
        #: Whether `_left` goes on with a line, whose time is then in `_nanos`; None: it has none.
        self._is_open = False
        self._nanos: int | None = None
        self._second = (b"", 0)

    def take(self, block: bytes) -> Iterator[Piece]:
        """The pieces that are complete with these bytes."""
        lines = (self._left + block).split(b"\n")
        self._left = lines.pop()
        for line in lines:
            nanos, text = self._read(line)
            self._is_open = False
            if nanos is None:
                continue
            text += b"\n"
            if len(text) > PIECE_BYTES:
                text = yield from _cut(nanos, text)
            yield Piece(nanos, text)
        if len(self._left) > PIECE_BYTES:
            nanos, text = self._read(self._left)
            if nanos is None:
                self._is_open, self._nanos, self._left = True, None, b""
            elif len(text) > PIECE_BYTES:
                self._is_open, self._nanos, self._left = True, nanos, b""
                self._left = yield from _cut(nanos, text)

    def rest(self) -> Piece | None:
        """What is there of a line without an end."""
        nanos, text = self._read(self._left)
        return Piece(nanos, text) if nanos is not None and text else None

    @property
    def complaint(self) -> str:
        """What the kubelet says at the end instead of output, such as that it cannot read its own file; or nothing."""
        if not self._left or self._is_open or self._read(self._left)[0] is not None:
            return ""
        return " ".join(self._left[:_MOST_WORDS].decode("utf-8", "replace").split())

    def _read(self, line: bytes) -> tuple[int | None, bytes]:
        """The time of a line's beginning, None where it has none, and its text."""
        if self._is_open:
            return self._nanos, line
        if line[:_SECOND_BYTES] == self._second[0] and line[19:20] == b"." and line[29:31] == b"Z ":
            fraction = line[20:29]
            if fraction.isdigit():
                return self._second[1] + int(fraction), line[31:]
        match = _TIME.match(line)
        if match is None:
            return None, line
        try:
            zone = match[3].replace(b"Z", b"+00:00")
            moment = datetime.fromisoformat((match[1] + zone).decode()).astimezone(UTC)
        except (ValueError, OverflowError):
            return None, line
        second = int(moment.timestamp()) * NANO
        if match[3] == b"Z":
            self._second = (match[1], second)
        return second + int((match[2] or b"0").ljust(9, b"0")), line[match.end() :]


def _cut(nanos: int, text: bytes) -> Generator[Piece, None, bytes]:
    """Pieces of a long text; what is left is its last, or the beginning of one."""
    while len(text) > PIECE_BYTES:
        yield Piece(nanos, text[:PIECE_BYTES])
        text = text[PIECE_BYTES:]
    return text


class Position(NamedTuple):
    """Where to go on; all zero: at the beginning.

    :param since: second since 1970 UTC from which the kubelet is asked
    :param known: how many pieces from there on are known
    :param first: time of the first line from there on in nanoseconds: another one is first once the log was rotated
    :param last: time of the last known piece
    :param run: how many known pieces, up to the last, have that time
    :param newest: the newest time of a known piece
    """

    since: int = 0
    known: int = 0
    first: int = 0
    last: int = 0
    run: int = 0
    newest: int = 0

    @classmethod
    def parse(cls, value: Any) -> Position:
        """A position that was stored; anything else is the beginning."""
        if isinstance(value, list) and len(value) == len(cls._fields) and all(isinstance(part, int) for part in value):
            return cls(*value)
        return cls()

    def dump(self) -> list[int]:
        """As it is stored."""
        return list(self)


class Track:
    """Counts pieces from a position's second on; what it says depends on them alone, not on where reading began."""

    def __init__(self, since: int) -> None:
        self._since = since
        #: Time of the first piece, and the number of pieces, of each second; in the order of the log.
        self._seconds: dict[int, tuple[int, int]] = {}
        self._known = self._first = self._last = self._run = self._newest = 0

    @property
    def position(self) -> Position:
        """The position behind all that it knows."""
        return Position(self._since, self._known, self._first, self._last, self._run, self._newest)

    def take(self, nanos: int) -> Position:
        """Know one more piece; the position behind it.

        :param nanos: its time
        """
        second = nanos // NANO
        if second < self._since:
            return self.position
        first, count = self._seconds.get(second, (nanos, 0))
        self._seconds[second] = (first, count + 1)
        self._known += 1
        self._first = self._first or nanos
        self._run = self._run + 1 if nanos == self._last else 1
        self._last = nanos
        if nanos > self._newest:
            self._newest = nanos
            if second - MARGIN_SECONDS > self._since:
                self._move(second - MARGIN_SECONDS)
        return self.position

    def _move(self, since: int) -> None:
        self._since = since
        for second in [second for second in self._seconds if second < since]:
            self._known -= self._seconds.pop(second)[1]
        self._first = next(iter(self._seconds.values()))[0]
