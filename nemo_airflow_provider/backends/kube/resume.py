"""Going on from a position in a container's output: what is known is left out, what the node has lost is told; pure.

As long as the file is the one that the position was taken in, what is known is counted off. Once it was rotated, what
is known ends with the last known line, if that one is still there. If it is not, all that is there is new, and nobody
can say whether anything between is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain
from typing import NamedTuple

from nemo_airflow_provider.backends.kube.lines import NANO, Piece, Position, Track

MARKER = b"[some output may be missing here: the kubelet had rotated the log away]\n"
#: Between the time of a line and those of lines that were written before it.
_DISORDER_NANOS = NANO
#: Of lines about which is not known yet whether they are known.
_MOST_BYTES = 1 << 22

#: None: nothing more comes for now.
Pieces = Iterator[Piece | None]
#: Says None whenever nothing more comes for now, and in the end the new pieces that it had to read, and whether
#: something may be missing before them.
_Search = Generator[None, None, tuple[list[Piece], bool]]


class Step(NamedTuple):
    """A piece that was not known, and the positions before and behind it."""

    piece: Piece
    start: Position
    end: Position


def unknown(known: Position, pieces: Pieces) -> Iterator[Step | None]:
    """What follows a position, of all that comes from its second on; None where nothing comes for now.

    Before output that may not be all there is stands `MARKER`, with a position of its own behind it: nothing of what
    is there is known.
    """
    track, start = Track(known.since), known
    read, is_broken = yield from _search(known, pieces, track)
    if is_broken:
        end = track.position
        if not end.known:
            end = end._replace(first=read[0].nanos)
        yield Step(Piece(read[0].nanos, MARKER), start, end)
        start = end
    for piece in chain(read, pieces):
        if piece is None:
            yield None
            continue
        end = track.take(piece.nanos)
        yield Step(piece, start, end)
        start = end


def _search(known: Position, pieces: Pieces, track: Track) -> _Search:
    if known == Position():
        return [], False
    for piece in pieces:
        if piece is not None:
            is_same = piece.nanos == known.first
            return (yield from (_count if is_same else _find)(known, chain([piece], pieces), track))
        yield None
    return [], False


def _count(known: Position, pieces: Pieces, track: Track) -> _Search:
    """Leave out as many as are known."""
    left = known.known
    for piece in pieces:
        if piece is None:
            yield None
        elif not left:
            return [piece], False
        elif piece.nanos > known.newest:
            return [piece], True
        else:
            track.take(piece.nanos)
            left -= 1
    return [], False


def _find(known: Position, pieces: Pieces, track: Track) -> _Search:
    """Leave out all up to the last known one."""
    held = _Held(track)
    run = 0
    for piece in pieces:
        if piece is None:
            yield None
            if run or held.pieces:
                break
        elif piece.nanos == known.last:
            held.forget()
            track.take(piece.nanos)
            run += 1
            if run == known.run:
                break
        elif run:
            return [piece], False
        elif piece.nanos > known.newest:
            return [*held.pieces, piece], True
        elif piece.nanos < known.last - _DISORDER_NANOS:
            track.take(piece.nanos)
        else:
            held.add(piece)
    return list(held.pieces), bool(held.pieces)


class _Held:
    """Pieces that are known if the last known one is still to come."""

    def __init__(self, track: Track) -> None:
        self.pieces: deque[Piece] = deque()
        self._track = track
        self._bytes = 0

    def add(self, piece: Piece) -> None:
        """One more; of more than can be held, the oldest are taken for known."""
        self.pieces.append(piece)
        self._bytes += len(piece.data)
        while self._bytes > _MOST_BYTES:
            self._know()

    def forget(self) -> None:
        """All of them are known."""
        while self.pieces:
            self._know()

    def _know(self) -> None:
        piece = self.pieces.popleft()
        self._bytes -= len(piece.data)
        self._track.take(piece.nanos)
