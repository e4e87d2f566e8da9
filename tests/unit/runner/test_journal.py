"""What a look at a workload publishes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nemo_airflow_provider.model.record import Handle
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.journal import Journal
from tests.unit.runner.fakes import FakeBackend, FakeHost, step_task

TASK = "task-0123456789ab"


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def journal(host: FakeHost, tmp_path: Path) -> Journal:
    """One whose workload was submitted, and of which nothing is counted yet."""
    made = Journal(step_task(FakeBackend(), tmp_path), host)
    made.begin(Handle(state="submitting", engine="engine-1"), TASK, 5)
    made.submitted(TASK, {"pid": 7}, runs=True)
    host.saved.clear()
    return made


def test_the_same_again_is_not_published(host: FakeHost, journal: Journal) -> None:
    for _ in range(3):
        journal.update(Status.ACTIVE, "Job is running", {"pid": 7}, TASK)
    assert host.saved == []


def test_a_status_that_may_not_follow_is_no_news(host: FakeHost, journal: Journal) -> None:
    for _ in range(3):
        journal.update(Status.PENDING, "Job is pending", {}, TASK)
    (published,) = (value for _, value in host.saved)
    assert (published["status"], published["tasks"][0]["status"]) == ("active", "active")
    assert published["status_details"] == {"pid": 7, "message": "Job is pending"}


def test_what_is_new_is_published_each_time(host: FakeHost, journal: Journal) -> None:
    journal.update(Status.ACTIVE, "Job is running", {"pid": 8}, TASK)
    journal.update(Status.CANCELLING, "Job is cancelling", {}, TASK)
    journal.update(Status.ACTIVE, "Job is cancelling", {}, TASK)  # it does not go back
    assert [value["status"] for _, value in host.saved] == ["active", "cancelling"]
    row = host.saved[-1][1]["tasks"][0]
    assert row["status_details"] == {"pid": 8, "message": "Job is cancelling"}


def test_what_could_not_be_published_is_tried_again(host: FakeHost, journal: Journal) -> None:
    host.away_until = time.monotonic() + 60
    journal.update(Status.ACTIVE, "Job is running", {"pid": 8}, TASK)
    host.away_until = 0.0
    journal.update(Status.ACTIVE, "Job is running", {"pid": 8}, TASK)
    journal.update(Status.ACTIVE, "Job is running", {"pid": 8}, TASK)
    assert [value["status_details"]["pid"] for _, value in host.saved] == [8]
