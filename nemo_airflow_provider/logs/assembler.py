"""Bytes to lines, per task and stream, with bounded memory and a state from which it can go on exactly.

The state is a position `P` of the engine (the start of the earliest chunk that still has an open line, else
the end of the last chunk) and, for each task and stream, how many of its bytes from `P` on are lines already.
Whoever goes on reads from `P` and drops just those bytes, so nothing is lost or doubled even when the chunks
fall another way.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from nemo_airflow_provider.logs.store import Line
from nemo_airflow_provider.model.logline import Stream

#: Longest line kept, in bytes; also the most that is split at once.
LINE_LIMIT_BYTES = 65536

_Key = tuple[str, Stream]
_DECODER = codecs.getincrementaldecoder("utf-8")


class Chunk(Protocol):
    """What is read of a backend's chunk (`backends.base.Chunk`)."""

    @property
    def task(self) -> str: ...
    @property
    def stream(self) -> Stream: ...
    @property
    def micros(self) -> int: ...
    @property
    def data(self) -> bytes: ...
    @property
    def start(self) -> Any: ...
    @property
    def end(self) -> Any: ...


class _Mark:
    """A chunk whose start may be the resume position, and the bytes fed from it up to the next mark."""

    __slots__ = ("fed", "open_lines", "position")

    def __init__(self, position: Any) -> None:
        self.position = position
        self.open_lines = 0
        self.fed: dict[_Key, int] = {}


class _Text:
    """The head of a text of any length."""

    __slots__ = ("head", "length")

    def __init__(self, data: bytes = b"") -> None:
        self.head = bytearray(data)
        self.length = len(data)

    def extend(self, data: bytes, limit: int) -> None:
        self.length += len(data)
        if len(self.head) < limit:
            self.head += data[: limit - len(self.head)]

    def decode(self, limit: int) -> str:
        if self.length <= limit:
            return self.head.decode("utf-8", "replace")
        # Not final: a character that the cut went through is left out.
        head = _DECODER("replace").decode(bytes(self.head[:limit]))
        return f"{head} … [cut: {self.length} bytes]"


class _OpenLine:
    """A line whose end has not come. Of text that was rewritten by `\\r`, only the last is kept."""

    __slots__ = ("current", "mark", "micros", "raw_bytes", "rewritten")

    def __init__(self, mark: _Mark) -> None:
        self.mark = mark
        self.micros = 0
        self.raw_bytes = 0
        self.current = _Text()
        self.rewritten = _Text()

    def extend(self, data: bytes, micros: int, limit: int) -> None:
        self.raw_bytes += len(data)
        self.micros = micros
        first, *more = data.split(b"\r")
        self.current.extend(first, limit)
        if more:
            texts = [text for text in more[:-1] if text]
            if texts:
                self.rewritten = _Text(texts[-1])
            elif self.current.length:
                self.rewritten = self.current
            self.current = _Text(more[-1])

    def message(self, limit: int) -> str:
        text = self.current if self.current.length else self.rewritten
        return text.decode(limit)


class Assembler:
    """Turns chunks into lines.

    :param state: a value of `state()`, to go on from there; None to begin
    :param line_limit: see `LINE_LIMIT_BYTES`
    """

    def __init__(self, state: Mapping[str, Any] | None = None, *, line_limit: int = LINE_LIMIT_BYTES) -> None:
        self._limit = line_limit
        self._end: Any = state["position"] if state else None
        self._skip: dict[_Key, int] = {}
        for task, stream, count in state["skip"] if state else ():
            self._skip[(task, stream)] = count
        self._marks: list[_Mark] = []
        self._open: dict[_Key, _OpenLine] = {}

    @property
    def position(self) -> Any:
        """Where to read on from, with `state()`'s bytes dropped."""
        return self._marks[0].position if self._marks else self._end

    def state(self) -> dict[str, Any]:
        """JSON value to go on from; right after every list that `feed` yields, and between chunks."""
        counts = dict(self._skip)
        for mark in self._marks:
            for key, fed in mark.fed.items():
                counts[key] = counts.get(key, 0) + fed
        for key, line in self._open.items():
            counts[key] -= line.raw_bytes
        skip = [[task, stream, count] for (task, stream), count in counts.items() if count]
        return {"position": self.position, "skip": skip}

    def feed(self, chunk: Chunk) -> Iterator[list[Line]]:
        """The lines that this chunk completes, in lists of bounded size. Must be used up.

        The time of a line is the time of the chunk that completed it.
        """
        key = (chunk.task, chunk.stream)
        mark = _Mark(chunk.start)
        self._marks.append(mark)
        mark.open_lines += 1  # holds the mark while the chunk is in work
        data = chunk.data
        for offset in range(0, len(data), self._limit):
            piece = data[offset : offset + self._limit]
            mark.fed[key] = mark.fed.get(key, 0) + len(piece)
            if self._skip:
                piece = self._drop_known(key, piece)
            if lines := self._split(key, piece, chunk.micros, mark):
                yield lines
        self._end = chunk.end
        self._release(mark)

    def flush(self) -> list[Line]:
        """The lines that the workload ended without a newline. Nothing may be fed afterwards."""
        lines = [(line.micros, task, stream, line.message(self._limit)) for (task, stream), line in self._open.items()]
        self._open.clear()
        self._marks.clear()
        self._skip.clear()
        return lines

    def _drop_known(self, key: _Key, piece: bytes) -> bytes:
        known = self._skip.get(key, 0)
        if not known:
            return piece
        dropped = min(known, len(piece))
        if dropped == known:
            del self._skip[key]
        else:
            self._skip[key] = known - dropped
        return piece[dropped:]

    def _split(self, key: _Key, piece: bytes, micros: int, mark: _Mark) -> list[Line]:
        lines: list[Line] = []
        first, last = 0, piece.rfind(b"\n") + 1
        task, stream = key
        open_line = self._open.get(key)
        if open_line is not None and last:
            first = piece.index(b"\n") + 1
            open_line.extend(piece[: first - 1], micros, self._limit)
            lines.append((micros, task, stream, open_line.message(self._limit)))
            del self._open[key]
            self._release(open_line.mark)
        if first < last:
            messages = _messages(piece[first : last - 1])
            lines += [(micros, task, stream, message) for message in messages]
        if last < len(piece):
            self._extend_open(key, piece[last:], micros, mark)
        return lines

    def _extend_open(self, key: _Key, data: bytes, micros: int, mark: _Mark) -> None:
        line = self._open.get(key)
        if line is None:
            line = self._open[key] = _OpenLine(mark)
            mark.open_lines += 1
        line.extend(data, micros, self._limit)

    def _release(self, mark: _Mark) -> None:
        mark.open_lines -= 1
        if mark.open_lines:
            return
        # The resume position never lies before the first mark, so what was fed before that is of no use; what
        # was fed after a mark in the middle now follows the mark before.
        place = self._marks.index(mark)
        del self._marks[place]
        if place:
            before = self._marks[place - 1].fed
            for key, fed in mark.fed.items():
                before[key] = before.get(key, 0) + fed


def _messages(data: bytes) -> list[str]:
    """Whole lines, none of them over the limit."""
    text = data.decode("utf-8", "replace")
    if "\r" not in text:
        return text.split("\n")
    return [_last_rewrite(line) if "\r" in line else line for line in text.split("\n")]


def _last_rewrite(line: str) -> str:
    return next((text for text in reversed(line.split("\r")) if text), "")
