"""Endpoint 9 over plain HTTP: pages, cursors, tail windows and filters, of ended and of running jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack.airflow import wait_until
from tests.wire.jobs import Jobs, answered, fresh, refused

NUMBERS = 250
NUMBERED = [str(number) for number in range(1, NUMBERS + 1)]


@pytest.fixture(scope="module")
def long_log(jobs: Jobs) -> str:
    """A job that has printed 1 to 250 and, in a second step, `end`."""
    name = fresh("log")
    jobs.run(name, f"seq {NUMBERS}", "echo end")
    return name


@pytest.fixture
def growing(jobs: Jobs, tmp_path: Path) -> Iterator[Growing]:
    """A running job that prints what it is told."""
    job = Growing(jobs, fresh("growing"), tmp_path / "words")
    yield job
    jobs.cancel(job.name)


class Growing:
    """A job whose next line is the next line of a file.

    :param words: the file
    """

    def __init__(self, jobs: Jobs, name: str, words: Path) -> None:
        self.name = name
        self._jobs = jobs
        self._words = words
        self._count = 0
        words.touch()
        jobs.create(name, f"tail -n +1 -f {words}")

    def say(self, *words: str) -> None:
        """Print lines, and wait until they can be read."""
        with self._words.open("a") as file:
            file.writelines(f"{word}\n" for word in words)
        self._count += len(words)
        wait_until(lambda: self._jobs.log(self.name, limit=1)["total"] == self._count, what="the lines in the log")


def messages(page: dict[str, Any]) -> list[str]:
    return [row["message"] for row in page["data"]]


def walk(jobs: Jobs, name: str, **query: Any) -> list[dict[str, Any]]:
    """All pages, by `next_page`."""
    pages = [jobs.log(name, **query)]
    while cursor := pages[-1]["next_page"]:
        pages.append(jobs.log(name, **query | {"page_cursor": cursor}))
    return pages


class TestPages:
    def test_rows(self, jobs: Jobs, long_log: str) -> None:
        page = jobs.log(long_log)
        assert list(page) == ["data", "total", "next_page", "prev_page"]
        assert (len(page["data"]), page["total"]) == (100, NUMBERS + 1)
        (task,) = jobs.status(long_log)["steps"][0]["tasks"]
        row = page["data"][0]
        assert list(row) == ["timestamp", "job", "job_step", "job_task", "message", "stream"]
        assert (row["job"], row["job_step"], row["job_task"]) == (long_log, "one", task["name"])
        assert (row["message"], row["stream"]) == ("1", "stdout")
        times = [row["timestamp"] for page in walk(jobs, long_log) for row in page["data"]]
        assert times == sorted(times)

    def test_first_middle_and_last_page(self, jobs: Jobs, long_log: str) -> None:
        first, middle, last = walk(jobs, long_log, limit=100)
        assert (first["prev_page"], last["next_page"]) == (None, None)
        assert middle["prev_page"] and last["prev_page"]
        assert {page["total"] for page in (first, middle, last)} == {NUMBERS + 1}
        assert messages(first) + messages(middle) + messages(last) == [*NUMBERED, "end"]
        assert messages(jobs.log(long_log, limit=100, page_cursor=last["prev_page"])) == messages(middle)
        assert messages(jobs.log(long_log, limit=100, page_cursor=middle["prev_page"])) == messages(first)

    def test_l2_the_limit_may_change_between_pages(self, jobs: Jobs, long_log: str) -> None:
        page, found = jobs.log(long_log, limit=7), []
        for limit in (1, 10000, 3):
            found += messages(page)
            if page["next_page"] is None:
                break
            page = jobs.log(long_log, limit=limit, page_cursor=page["next_page"])
        assert found == [*NUMBERED, "end"]

    def test_l2_equal_timestamps_keep_their_order(self, jobs: Jobs, long_log: str) -> None:
        rows = [row for page in walk(jobs, long_log, limit=9) for row in page["data"]]
        assert len({row["timestamp"] for row in rows}) < len(rows), "some lines share their time"
        assert [row["message"] for row in rows] == [*NUMBERED, "end"]

    def test_limit_bounds(self, jobs: Jobs, long_log: str) -> None:
        for query in ({"limit": 0}, {"limit": 10001}, {"limit": "x"}, {"tail": 0}, {"tail": 10001}):
            (problem,) = refused(jobs.get(long_log, "logs", **query), 422)
            assert problem["loc"] == ["query", next(iter(query))]
        assert len(jobs.lines(long_log, limit=10000)) == NUMBERS + 1

    def test_a_job_without_lines(self, jobs: Jobs) -> None:
        name = fresh("silent")
        jobs.run(name, "true")
        empty = {"data": [], "total": 0, "next_page": None, "prev_page": None}
        assert jobs.log(name) == jobs.log(name, tail=5) == empty


class TestTail:
    def test_windows_go_back_without_a_double(self, jobs: Jobs, long_log: str) -> None:
        page = jobs.log(long_log, tail=60)
        windows = [page]
        while cursor := page["prev_page"]:
            page = jobs.log(long_log, limit=60, page_cursor=cursor)
            windows.append(page)
        assert len(windows) == 5
        assert {window["next_page"] for window in windows} == {None}
        found = [message for window in reversed(windows) for message in messages(window)]
        assert found == [*NUMBERED, "end"]

    def test_a_tail_of_everything_has_nothing_before_it(self, jobs: Jobs, long_log: str) -> None:
        page = jobs.log(long_log, tail=NUMBERS + 1)
        assert (page["prev_page"], page["next_page"], len(page["data"])) == (None, None, NUMBERS + 1)

    def test_what_it_cannot_be_combined_with(self, jobs: Jobs, long_log: str) -> None:
        cursor = jobs.log(long_log, limit=5)["next_page"]
        assert refused(jobs.get(long_log, "logs", tail=5, limit=5), 400) == (
            "tail cannot be combined with limit; tail controls the returned log window size."
        )
        assert refused(jobs.get(long_log, "logs", tail=5, page_cursor=cursor), 400) == (
            "tail cannot be combined with page_cursor; pass the returned prev_page as page_cursor without tail."
        )


class TestFilters:
    def test_step_task_and_attempt(self, jobs: Jobs, long_log: str) -> None:
        one, two = (step["tasks"][0]["name"] for step in jobs.status(long_log)["steps"])
        assert jobs.lines(long_log, step_id="two") == jobs.lines(long_log, task_id=two) == ["end"]
        assert jobs.log(long_log, task_id=one, limit=1)["total"] == NUMBERS
        assert jobs.lines(long_log, task_id=one, step_id="two") == jobs.lines(long_log, step_id="x") == []
        whole = jobs.log(long_log)["data"]
        attempt = jobs.job(long_log)["attempt_id"]
        for same in ("current", "0", attempt):
            assert jobs.log(long_log, attempt_id=same)["data"] == whole
        for other in ("1", "nothing", f"{attempt}7"):
            assert jobs.log(long_log, attempt_id=other)["data"] == []

    def test_a_cursor_belongs_to_its_filters(self, jobs: Jobs, long_log: str) -> None:
        cursor = jobs.log(long_log, limit=5, step_id="one")["next_page"]
        assert jobs.log(long_log, limit=1, step_id="one", page_cursor=cursor)["data"][0]["message"] == "6"
        mismatch = "page_cursor does not match the current log filters."
        for query in ({}, {"step_id": "two"}, {"step_id": "one", "task_id": "task-1"}):
            assert refused(jobs.get(long_log, "logs", page_cursor=cursor, **query), 422) == mismatch

    @pytest.mark.parametrize("cursor", ["x", "", "AAAA", "é", "A" * 500])
    def test_what_is_no_cursor(self, jobs: Jobs, long_log: str, cursor: str) -> None:
        # The client's watch begins anew on exactly this text.
        assert refused(jobs.get(long_log, "logs", page_cursor=cursor), 422) == "Invalid page cursor"


class TestWhileTheJobRuns:
    def test_a_cursor_read_again_gives_its_lines_and_newer_ones(self, jobs: Jobs, growing: Growing) -> None:
        growing.say("a", "b", "c", "d", "e")
        assert jobs.status(growing.name)["status"] == "active"
        first = jobs.log(growing.name, limit=2)
        second = jobs.log(growing.name, limit=2, page_cursor=first["next_page"])
        third = jobs.log(growing.name, limit=2, page_cursor=second["next_page"])
        assert [messages(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
        assert third["next_page"] is None
        growing.say("f", "g")
        again = jobs.log(growing.name, limit=2, page_cursor=second["next_page"])
        assert messages(again) == ["e", "f"]
        assert again["data"][0] == third["data"][0], "a line's time and text never change"
        assert messages(jobs.log(growing.name, page_cursor=again["next_page"])) == ["g"]
        assert jobs.log(growing.name, limit=2)["data"] == first["data"]
        assert again["total"] == 7

    def test_a_tail_window_stays_while_lines_come(self, jobs: Jobs, growing: Growing) -> None:
        growing.say("a", "b", "c", "d")
        page = jobs.log(growing.name, tail=2)
        growing.say("e", "f")
        assert messages(page) == ["c", "d"]
        before = jobs.log(growing.name, limit=2, page_cursor=page["prev_page"])
        assert (messages(before), before["prev_page"], before["next_page"]) == (["a", "b"], None, None)
        assert jobs.lines(growing.name, tail=2) == ["e", "f"]

    def test_after_a_cancel_the_log_is_complete_and_stays(self, jobs: Jobs, growing: Growing) -> None:
        growing.say("a")
        jobs.cancel(growing.name)
        jobs.wait(growing.name, "cancelled")
        assert jobs.lines(growing.name) == ["a"]


class TestContent:
    def test_l1_every_line_is_there_once_the_job_is_over(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.create(name, "seq 3000; echo last >&2; printf unfinished")
        status = wait_until(lambda: (seen := jobs.status(name))["status"] == "completed" and seen, 60)
        page = jobs.log(name, limit=10000)
        assert status and page["total"] == 3002
        assert {"[stderr] last", "unfinished"} < set(messages(page))

    def test_l4_streams_are_told_apart(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.run(name, "echo out; sleep 0.3; echo err >&2; sleep 0.3; echo '[stderr] not really'")
        assert [(row["stream"], row["message"]) for row in jobs.log(name)["data"]] == [
            ("stdout", "out"),
            ("stderr", "[stderr] err"),
            ("stdout", "[stderr] not really"),
        ]

    def test_l5_empty_and_very_long_lines_are_kept(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.run(name, "echo a; echo; echo; head -c 100000 /dev/zero | tr '\\0' x; echo; echo b")
        a, empty, another, long, b = jobs.lines(name)
        assert (a, empty, another, b) == ("a", "", "", "b")
        assert long.startswith("x" * 60_000) and "100000" in long[-200:], "cut with its true length"

    def test_any_bytes_are_text(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.run(name, r"printf 'gr\303\274n\n\377\376\n\033[31mred\033[0m\n'")
        green, broken, red = jobs.lines(name)
        assert (green, red) == ("grün", "\x1b[31mred\x1b[0m")
        assert "�" in broken

    def test_task_names_agree(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.run(name, "echo $NEMO_JOB_TASK $NEMO_JOB_ID $NEMO_JOB_STEP $NEMO_JOB_ATTEMPT_ID $NEMO_JOB_FILESET")
        (row,) = jobs.log(name)["data"]
        task, job, step, attempt, fileset = row["message"].split()
        assert re.fullmatch(r"task-[0-9a-f]{12}", task)
        assert task == row["job_task"] == answered(jobs.get(name, "steps", "one", "tasks"))["data"][0]["name"]
        shown = jobs.job(name)
        assert (job, step, attempt, fileset) == (name, "one", shown["attempt_id"], shown["fileset"])
