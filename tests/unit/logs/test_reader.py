from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.logs.cursor import Cursor, CursorMismatch, Direction, InvalidCursor
from nemo_airflow_provider.logs.reader import LogPage, LogReader, StreamView
from nemo_airflow_provider.logs.store import Line, StreamId, StreamWriter
from nemo_airflow_provider.logs.stored import read_from

from .engine import BEGAN

TASKS = ("task-a", "task-b", "task-rare")
FIRST = StreamView(0, 0, "prepare", StreamId("default", "key", 0, 0))
EMPTY = StreamView(0, 1, "nothing", StreamId("default", "key", 1, 0))
SECOND = StreamView(0, 2, "train", StreamId("default", "key", 2, 0))
RERUN = StreamView(1, 2, "train", StreamId("default", "key", 2, 1))
VIEWS = (RERUN, SECOND, FIRST, EMPTY)  # the reader orders them


def _append(root: Path, view: StreamView, count: int) -> None:
    with StreamWriter.open(root, view.stream, segment_bytes=20_000) as writer:
        first = writer.next_seq
        # All times are equal: order never depends on them.
        lines: list[Line] = [
            (BEGAN, "task-rare" if n % 97 == 50 else TASKS[n % 2], "stdout", f"{view.step} {n}")
            for n in range(first, first + count)
        ]
        writer.append(lines)
        writer.commit(None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    _append(root, FIRST, 700)
    _append(root, SECOND, 256)
    _append(root, RERUN, 1000)
    return root


def _page(root: Path, cursor: str | None = None, limit: int = 100, task: str | None = None) -> LogPage:
    return LogReader(root).page(VIEWS, task=task, limit=limit, cursor=cursor, scope="s")


def _texts(page: LogPage) -> list[str]:
    assert all(line.message.startswith(view.step) for view, line in page.rows)
    return [f"{view.attempt} {line.message}" for view, line in page.rows]


def _all(root: Path, task: str | None = None) -> list[str]:
    """Every line, read without pages."""
    return [
        f"{view.attempt} {line.message}"
        for view in (FIRST, SECOND, RERUN)
        for line in read_from(root, view.stream, 0, 10_000)
        if task in (None, line.task)
    ]


@pytest.mark.parametrize("task", [None, *TASKS])
@pytest.mark.parametrize("limit", [31, 100, 256, 5000])
def test_pages_forward_give_every_line_once(store: Path, task: str | None, limit: int) -> None:
    seen: list[str] = []
    page = _page(store, limit=limit, task=task)
    assert page.prev_page is None
    while True:
        seen += _texts(page)
        assert page.total == len(_all(store, task))
        if page.next_page is None:
            break
        assert len(page.rows) == limit
        page = _page(store, page.next_page, limit, task)
        assert page.prev_page is not None
    assert seen == _all(store, task)


@pytest.mark.parametrize("task", [None, *TASKS])
@pytest.mark.parametrize("lines", [31, 100, 256, 5000])
def test_windows_back_from_the_tail_give_every_line_once(store: Path, task: str | None, lines: int) -> None:
    seen: list[str] = []
    page = LogReader(store).tail(VIEWS, task=task, lines=lines, scope="s")
    while True:
        seen = _texts(page) + seen
        assert page.next_page is None
        assert page.total == len(_all(store, task))
        if page.prev_page is None:
            break
        page = _page(store, page.prev_page, lines, task)
    assert seen == _all(store, task)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=12), st.sampled_from([None, *TASKS]))
def test_walking_to_and_fro_stays_in_place(store: Path, moves: list[tuple[bool, int]], task: str | None) -> None:
    expected = _all(store, task)
    page, first = _page(store, limit=50, task=task), 0
    for forward, limit in moves:
        end = first + len(page.rows)
        cursor = page.next_page if forward else page.prev_page
        if cursor is None:
            assert end == len(expected) if forward else first == 0
            continue
        page = _page(store, cursor, limit, task)
        first = end if forward else max(first - limit, 0)
        count = limit if forward else end - len(page.rows) - first
        assert _texts(page) == expected[first : first + len(page.rows)]
        assert len(page.rows) > 0 and (not forward or len(page.rows) == min(count, len(expected) - first))


def test_a_page_reached_backwards_from_a_page_has_a_next_page(store: Path) -> None:
    second = _page(store, _page(store).next_page)
    first = _page(store, second.prev_page)
    assert _texts(first) == _texts(_page(store))
    assert first.prev_page is None
    assert _texts(_page(store, first.next_page)) == _texts(second)


def test_a_cursor_read_again_gives_the_same_lines_and_newer_ones(tmp_path: Path) -> None:
    _append(tmp_path, FIRST, 150)
    cursor = _page(tmp_path).next_page
    before = _page(tmp_path, cursor)
    assert (len(before.rows), before.next_page) == (50, None)
    _append(tmp_path, FIRST, 20)
    _append(tmp_path, SECOND, 10)
    after = _page(tmp_path, cursor)
    assert after.rows[:50] == before.rows
    assert len(after.rows) == 80
    assert (after.total, after.next_page) == (180, None)
    _append(tmp_path, SECOND, 30)
    full = _page(tmp_path, cursor)
    assert full.rows[:80] == after.rows
    assert full.next_page is not None
    assert len(_page(tmp_path, full.next_page).rows) == 10


def test_limit_may_change_between_pages(store: Path) -> None:
    first = _page(store, limit=10)
    second = _page(store, first.next_page, limit=33)
    assert _texts(first) + _texts(second) == _all(store)[:43]


def test_no_lines_is_an_empty_page(tmp_path: Path) -> None:
    empty = LogPage([], 0, None, None)
    assert _page(tmp_path) == empty
    assert LogReader(tmp_path).page([], task=None, limit=5, cursor=None, scope="s") == empty
    assert LogReader(tmp_path).tail(VIEWS, task=None, lines=5, scope="s") == empty


def test_an_unknown_task_has_no_lines(store: Path) -> None:
    assert _page(store, task='task-a","stream":"stdout') == LogPage([], 0, None, None)


def test_a_message_that_looks_like_a_task_is_not_one(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, FIRST.stream) as writer:
        writer.append([(BEGAN, "task-a", "stdout", ',"task":"task-b",'), (BEGAN, "task-b", "stdout", "mine")])
        writer.commit(None)
    page = _page(tmp_path, task="task-b")
    assert [line.message for _, line in page.rows] == ["mine"]


def test_cursors_are_bound_to_their_filters(store: Path) -> None:
    cursor = _page(store).next_page
    reader = LogReader(store)
    with pytest.raises(CursorMismatch):
        reader.page(VIEWS, task=None, limit=5, cursor=cursor, scope="other")
    with pytest.raises(InvalidCursor):
        reader.page(VIEWS, task=None, limit=5, cursor="", scope="s")


def test_pages_are_bounded_in_bytes_both_ways(tmp_path: Path) -> None:
    size = 60_000
    with StreamWriter.open(tmp_path, FIRST.stream) as writer:
        for n in range(400):
            writer.append([(BEGAN, TASKS[n % 2], "stdout", f"{n} ".ljust(size, "x"))])
        writer.commit(None)
    for task, step in ((None, 1), ("task-a", 2)):
        page = _page(tmp_path, limit=10_000, task=task)
        assert 100 < len(page.rows) <= 8 * 1024 * 1024 // size
        following = _page(tmp_path, page.next_page, 10_000, task)
        assert following.rows[0][1].seq == page.rows[-1][1].seq + step
        tail = LogReader(tmp_path).tail([FIRST], task=task, lines=10_000, scope="s")
        assert 100 < len(tail.rows) <= 8 * 1024 * 1024 // size
        assert tail.rows[-1][1].seq == 400 - step
        earlier = _page(tmp_path, tail.prev_page, 10_000, task)
        assert earlier.rows[-1][1].seq == tail.rows[0][1].seq - step


def test_a_cursor_outlives_a_removed_stream(tmp_path: Path) -> None:
    _append(tmp_path, FIRST, 150)
    cursor = _page(tmp_path).next_page
    for path in FIRST.stream.path(tmp_path).iterdir():
        path.unlink()
    assert _page(tmp_path, cursor) == LogPage([], 0, None, None)


def test_a_request_reads_its_page_and_not_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamWriter.open(tmp_path, FIRST.stream) as writer:
        for first in range(0, 1_000_000, 10_000):
            lines: list[Line] = [
                (BEGAN, "task-rare" if n % 200_000 == 7 else TASKS[n % 2], "stdout", f"line {n}")
                for n in range(first, first + 10_000)
            ]
            writer.append(lines)
            writer.commit(None)
    bytes_read = 0
    real_pread = os.pread

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal bytes_read
        data = real_pread(descriptor, size, offset)
        bytes_read += len(data)
        return data

    monkeypatch.setattr(os, "pread", pread)
    reader = LogReader(tmp_path)
    for task, total in ((None, 1_000_000), ("task-b", 499_995), ("task-rare", 5)):
        page = reader.page([FIRST], task=task, limit=100, cursor=None, scope="s")
        tail = reader.tail([FIRST], task=task, lines=500, scope="s")
        middle = Cursor(Direction.FORWARD, FIRST.order, 500_000).encode("s")
        assert reader.page([FIRST], task=task, limit=100, cursor=middle, scope="s").rows[0][1].seq >= 500_000
        assert page.total == tail.total == total
        assert tail.rows[-1][1].seq == {"task-rare": 800_007}.get(task or "", 999_999)
    assert bytes_read < 2_000_000  # of 130 MB
