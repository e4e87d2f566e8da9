"""A job's log as pages: its streams one after another, of all tasks or one, read both ways or from the end."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nemo_airflow_provider.logs.cursor import Cursor, Direction
from nemo_airflow_provider.logs.layout import BLOCK_LINES, StreamId
from nemo_airflow_provider.logs.stored import READ_BYTES, StoredStream
from nemo_airflow_provider.model.logline import LogLine


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream as part of a job's log.

    :param attempt: attempt in which the step's generation began
    :param step_index: place of the step in the job, from 0
    :param step: step name, for the reader of the rows
    :param stream: where the lines are
    """

    attempt: int
    step_index: int
    step: str
    stream: StreamId

    @property
    def order(self) -> tuple[int, int, int]:
        """Its place in the job's log."""
        return self.attempt, self.step_index, self.stream.generation


Row = tuple[StreamView, LogLine]


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order.

    :param rows: see `Row`
    :param total: all lines that match the filters; 0 when the page is empty
    :param next_page: cursor of the lines after these, if there are any now
    :param prev_page: cursor of the lines before these, if there are any
    """

    rows: list[Row]
    total: int
    next_page: str | None
    prev_page: str | None


class LogReader:
    """Reads pages of the store under `root`. Streams that do not exist (yet, any more) have no lines.

    `scope` is a text that names what is read (job, attempt, step, task); cursors are bound to it.
    A page holds at most 8 MiB, whatever was asked for.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def page(
        self, views: Sequence[StreamView], *, task: str | None, limit: int, cursor: str | None, scope: str
    ) -> LogPage:
        """The page at `cursor`, or the first one. A cursor read again gives the same lines and newer ones.

        :raises InvalidCursor: undecodable
        :raises CursorMismatch: made for another scope
        """
        place = Cursor.decode(cursor, scope) if cursor is not None else None
        with _JobLog(self._root, views, task) as log:
            if place is None:
                return _page(log, 0, log.forward(0, limit), Direction.FORWARD, scope)
            ordinal = log.ordinal(place.stream, place.seq)
            if place.direction is Direction.FORWARD:
                rows = log.forward(ordinal, limit)
                if not rows:
                    return _nothing_yet(place, ordinal, scope)
                return _page(log, ordinal, rows, place.direction, scope)
            rows = log.backward(ordinal, limit)
            return _page(log, ordinal - len(rows), rows, place.direction, scope)

    def tail(self, views: Sequence[StreamView], *, task: str | None, lines: int, scope: str) -> LogPage:
        """The last lines. Earlier windows are reached through `prev_page`; there is no next page."""
        with _JobLog(self._root, views, task) as log:
            rows = log.backward(log.total, lines)
            return _page(log, log.total - len(rows), rows, Direction.TAIL, scope)


def _page(log: _JobLog, first: int, rows: list[Row], direction: Direction, scope: str) -> LogPage:
    """The page whose first row has the ordinal `first` in the log."""
    if not rows:
        return LogPage([], 0, None, None)
    next_page = prev_page = None
    if direction is not Direction.TAIL and first + len(rows) < log.total:
        view, line = rows[-1]
        next_page = Cursor(Direction.FORWARD, view.order, line.seq + 1).encode(scope)
    if first > 0:
        view, line = rows[0]
        back = Direction.TAIL if direction is Direction.TAIL else Direction.BACKWARD
        prev_page = Cursor(back, view.order, line.seq).encode(scope)
    return LogPage(rows, log.total, next_page, prev_page)


def _nothing_yet(place: Cursor, ordinal: int, scope: str) -> LogPage:
    back = Cursor(Direction.BACKWARD, place.stream, place.seq).encode(scope) if ordinal > 0 else None
    return LogPage([], 0, None, back)


class _JobLog:
    """The streams of a job in order, as one list of lines with ordinals."""

    def __init__(self, root: Path, views: Sequence[StreamView], task: str | None) -> None:
        self._stack = ExitStack()
        self._parts = [
            (view, self._stack.enter_context(StoredStream(root, view.stream, task)))
            for view in sorted(views, key=lambda view: view.order)
        ]
        self.total = sum(stored.total for _, stored in self._parts)

    def __enter__(self) -> _JobLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def ordinal(self, order: tuple[int, int, int], seq: int) -> int:
        """How many lines come before this place."""
        before = 0
        for view, stored in self._parts:
            if view.order < order:
                before += stored.total
            elif view.order == order:
                before += stored.ordinal(seq)
        return before

    def forward(self, first: int, count: int, room: int = READ_BYTES) -> list[Row]:
        """Lines from ordinal `first` on, as many as fit into `room` bytes."""
        rows: list[Row] = []
        for view, stored in self._parts:
            if first >= stored.total:
                first -= stored.total
                continue
            wanted = min(count - len(rows), stored.total - first)
            if wanted <= 0 or (rows and room <= 0):
                break
            lines = stored.read(first, wanted, room)
            rows += [(view, line) for line in lines]
            if len(lines) < wanted:
                break
            room -= sum(_size(line) for line in lines)
            first = 0
        return rows

    def backward(self, end: int, count: int) -> list[Row]:
        """Lines before ordinal `end`, in order, as many of the last ones as fit."""
        first = max(end - count, 0)
        rows: deque[Row] = deque()
        room = READ_BYTES
        while end > first:
            start = max(first, end - BLOCK_LINES)
            # The last lines of the piece are wanted, so it is read as a whole.
            for row in reversed(self.forward(start, end - start, sys.maxsize)):
                room -= _size(row[1])
                if rows and room < 0:
                    return list(rows)
                rows.appendleft(row)
            end = start
        return list(rows)


def _size(line: LogLine) -> int:
    return len(line.message.encode())
