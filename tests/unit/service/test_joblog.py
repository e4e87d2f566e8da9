"""Which streams are a job's log, attempt by attempt, and what becomes of cursors when the job is cleared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.errors import BadRequest, Forbidden, NotFound
from nemo_airflow_provider.logs.cursor import CursorMismatch, InvalidCursor
from nemo_airflow_provider.logs.store import StreamId, StreamWriter
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import STEP_RETRIES
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.gateway import Right, RunRow
from nemo_airflow_provider.service.joblog import LogRequest, Logs
from nemo_airflow_provider.service.lookup import Lookup
from tests.unit.service.fakes import FakeGateway, record, spec_of


class Job:
    """A job of two steps with its stored log."""

    def __init__(self, gateway: FakeGateway, access: Access, root: Path) -> None:
        self.gateway = gateway
        self.root = root
        self.row: RunRow = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
        self.key = names.run_key(self.row.dag_id, self.row.run_id, self.row.run_after)
        self.logs = Logs(Lookup(gateway, access), access, root)

    def ran(self, step: int, generation: int, attempt: int, *messages: str) -> None:
        """A generation of a step ran in an attempt and printed."""
        left = record(Status.COMPLETED, clear_number=attempt)
        name = ("one", "two")[step]
        self.gateway.step(self.row, name, "success", left, max_tries=STEP_RETRIES + generation)
        with StreamWriter.open(self.root, StreamId("default", self.key, step, generation)) as stream:
            stream.append([(0, "task-1", "stdout", message) for message in messages])
            stream.commit(None)

    def clear(self, *steps: str, generation: int = 1) -> None:
        self.row = self.gateway.run_state(
            self.row, "running", clear_number=self.gateway.rows[self.row.pk - 1].clear_number + 1
        )
        for step in steps:
            self.gateway.step(self.row, step, None, max_tries=STEP_RETRIES + generation)

    def page(self, **request: Any) -> dict[str, Any]:
        return self.logs.page("default", "job-1", LogRequest(**request))

    def lines(self, **request: Any) -> list[str]:
        return [row["message"] for row in self.page(**request)["data"]]


@pytest.fixture
def job(gateway: FakeGateway, access: Access, tmp_path: Path) -> Job:
    made = Job(gateway, access, tmp_path)
    made.ran(0, 0, 0, "a", "b")
    made.ran(1, 0, 0, "c", "d")
    return made


def test_the_steps_streams_in_order(job: Job) -> None:
    assert job.lines() == job.lines(attempt="current") == job.lines(attempt="0") == ["a", "b", "c", "d"]
    assert job.lines(step="two") == ["c", "d"]
    assert job.lines(tail=1) == ["d"]


def test_a_rerun_shows_its_own_lines_and_those_of_steps_that_stay(job: Job) -> None:
    job.clear("two")
    assert job.lines() == ["a", "b"]
    job.ran(1, 1, 1, "new")
    assert job.lines() == job.lines(attempt="1") == ["a", "b", "new"]


def test_an_earlier_attempt_stays_readable(job: Job) -> None:
    attempt = names.attempt_id(job.key, 0)
    job.clear("two")
    assert job.lines(attempt="0") == ["a", "b", "c", "d"]
    job.ran(1, 1, 1, "new")
    job.clear("one", "two", generation=2)
    assert job.lines() == []
    assert job.lines(attempt="0") == job.lines(attempt=attempt) == ["a", "b", "c", "d"]
    assert job.lines(attempt="1") == ["a", "b", "new"]
    assert job.lines(attempt="0", step=names.step_id(job.key, 1, 0)) == ["c", "d"]
    assert job.lines(attempt="1", step=names.step_id(job.key, 1, 0)) == []
    assert job.lines(attempt="3") == job.lines(attempt="nothing") == []


@pytest.mark.parametrize("asked", [{}, {"attempt": "current"}, {"step": "one"}, {"task": "task-1"}])
def test_a_cursor_of_the_current_attempt_ends_with_it(job: Job, asked: dict[str, str]) -> None:
    cursor = job.page(limit=1, **asked)["next_page"]
    assert job.lines(limit=1, cursor=cursor, **asked) == ["b"]
    job.clear("one", "two")
    # The client begins anew on exactly this text.
    with pytest.raises(InvalidCursor, match="^Invalid page cursor$"):
        job.page(cursor=cursor, **asked)


def test_a_cursor_of_a_named_attempt_stays(job: Job) -> None:
    cursor = job.page(limit=3, attempt="0")["next_page"]
    job.clear("one", "two")
    assert job.lines(attempt="0", cursor=cursor) == job.lines(attempt=names.attempt_id(job.key, 0), cursor=cursor)
    assert job.lines(attempt="0", cursor=cursor) == ["d"]


@pytest.mark.parametrize("other", [{"step": "one"}, {"task": "task-1"}, {"attempt": "0"}])
def test_a_cursor_belongs_to_what_was_asked_for(job: Job, other: dict[str, str]) -> None:
    cursor = job.page(limit=1)["next_page"]
    with pytest.raises(CursorMismatch):
        job.page(cursor=cursor, **other)


@pytest.mark.parametrize("more", [{"limit": 5}, {"cursor": "x"}])
def test_what_tail_cannot_be_combined_with(job: Job, more: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="tail cannot be combined with"):
        job.page(tail=5, **more)


@pytest.mark.parametrize("where", ["anchor", "shape"])
def test_rights(job: Job, gateway: FakeGateway, where: str) -> None:
    dag_id = names.anchor_dag_id("default") if where == "anchor" else job.row.dag_id
    gateway.denied = {(Right.READ_LOGS, dag_id)}
    with pytest.raises(Forbidden, match="not read logs of jobs"):
        job.page()
    gateway.denied = {(Right.READ, dag_id)}
    with pytest.raises(NotFound):
        job.page()
