"""A run as a job: statuses, details and errors out of what Airflow and the runner say."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from nemo_airflow_provider.model.record import INTENT_KEY, STEP_RETRIES, Intent
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.stepview import LOST_TEXT
from nemo_airflow_provider.service.view import JobView, view_of
from tests.unit.service.fakes import START, FakeGateway, record, spec_of

S = Status
NOW = START + timedelta(hours=1)


def view(gateway: FakeGateway, row: RunRow, now: datetime = NOW) -> JobView:
    found = view_of(gateway.rows[row.pk - 1], gateway.states[row.pk], now)
    assert found is not None
    return found


def test_a_new_job_has_one_row(gateway: FakeGateway) -> None:
    job = view(gateway, gateway.add("two-steps", spec_of("one", "two")))
    assert (job.status, [step.spec.name for step in job.steps]) == (S.CREATED, ["one"])
    shown = render.job(job)
    assert shown["created_at"] == "2026-12-01T00:00:01.000000+00:00"
    assert shown["fileset"] == "job-fileset-two-steps"
    assert shown["error_details"] is None


def test_between_two_steps_it_is_active(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    end = START + timedelta(seconds=9)
    left = record(S.COMPLETED, end, ended_at=end, status_details={"message": "Job completed", "exit_code": 0})
    gateway.step(row, "one", "success", left)
    job = view(gateway, row)
    assert job.status is S.ACTIVE
    assert [step.status for step in job.steps] == [S.COMPLETED, S.CREATED]
    assert job.steps[1].created_at == end
    # Not the end of the step before: the job goes on.
    assert job.status_details == {"message": "Waiting for a worker of Airflow for step 'two'"}
    gateway.step(row, "two", "running")
    job = view(gateway, row)
    assert (job.status, job.steps[1].status) == (S.ACTIVE, S.PENDING)
    assert job.status_details == {"message": "A worker of Airflow is starting step 'two'"}


def test_a_first_step_waits_for_a_worker_until_one_has_it(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1"), "running")
    gateway.step(row, "train", "queued")
    assert view(gateway, row).status_details == {"message": "Waiting for a worker of Airflow"}
    gateway.step(row, "train", "running")
    job = view(gateway, row)
    assert (job.status, job.status_details) == (S.PENDING, {"message": "A worker of Airflow is starting the step"})
    gateway.step(row, "train", "running", record(S.ACTIVE, status_details={"message": "Job is running"}))
    job = view(gateway, row)
    assert (job.status, job.status_details) == (S.ACTIVE, {"message": "Job is running"})


def test_a_failed_step_gives_the_job_its_error(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "failed")
    error = {"message": "Job exited with code 3"}
    gateway.step(row, "one", "failed", record(S.ERROR, error_details=error, status_details={"exit_code": 3}))
    gateway.step(row, "two", "upstream_failed")
    job = view(gateway, row)
    assert job.status is S.ERROR
    assert job.error_details == {**error, "step": "one"}
    assert job.status_details == {"exit_code": 3}
    assert [step.spec.name for step in job.steps] == ["one"]


def test_a_run_that_failed_without_a_word(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1"), "failed")
    gateway.step(row, "train", "failed")
    job = view(gateway, row)
    assert job.status is S.ERROR
    assert job.error_details is not None and job.error_details["reason"] == "LostWorkload"


def test_a_run_marked_in_airflow_was_cancelled_by_somebody(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1"), "failed")
    gateway.step(row, "train", "skipped")
    gateway.states[row.pk] = replace(gateway.states[row.pk], marked_failed_by="bob")
    job = view(gateway, row)
    assert (job.status, job.status_details["cancelled_by"]) == (S.CANCELLED, "bob")


@pytest.mark.parametrize(
    ("run_state", "task_state", "marked_by", "text"),
    [
        ("failed", "skipped", "bob", "Job was cancelled"),
        ("failed", "failed", None, LOST_TEXT),
        ("success", "success", None, "The step was marked successful in Airflow"),
    ],
)
def test_a_paused_step_marked_in_airflow_does_not_say_that_it_is_paused(
    gateway: FakeGateway, run_state: str, task_state: str, marked_by: str | None, text: str
) -> None:
    row = gateway.run_state(gateway.add("job-1"), run_state)
    gateway.states[row.pk] = replace(gateway.states[row.pk], marked_failed_by=marked_by)
    said = {"message": "Job is paused", "images": ["one"]}
    gateway.step(row, "train", task_state, record(S.PAUSED, status_details=said))
    [step] = view(gateway, row).steps
    assert step.status.terminal
    assert step.status_details == {"message": text, "images": ["one"]}


@pytest.mark.parametrize("action", [Action.PAUSE, Action.RESUME])
def test_a_paused_run_marked_in_airflow_was_cancelled_too(gateway: FakeGateway, action: Action) -> None:
    row = gateway.run_state(gateway.add("job-1"), "failed")
    gateway.write_value(row, ["train"], INTENT_KEY, Intent(action=action, at=START).model_dump(mode="json"))
    gateway.step(row, "train", "skipped", record(S.PAUSED))
    gateway.states[row.pk] = replace(gateway.states[row.pk], marked_failed_by="bob")
    job = view(gateway, row)
    assert (job.status, job.status_details["cancelled_by"]) == (S.CANCELLED, "bob")


def test_a_workload_being_stopped_is_cancelling_until_it_had_its_grace(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1"), "failed")
    gateway.step(row, "train", "failed", record(S.ACTIVE, grace_seconds=30), end_date=START)
    assert view(gateway, row, START + timedelta(seconds=89)).status is S.CANCELLING
    job = view(gateway, row, START + timedelta(seconds=91))
    assert job.status is S.ERROR
    assert [task.status for task in job.steps[0].tasks] == [S.ERROR]
    assert job.steps[0].tasks[0].status_details["message"] == "Task finalized because job step is error"


def test_a_cancel_of_an_earlier_attempt_is_not_obeyed(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", clear_number=1), "running")
    intent = Intent(action=Action.CANCEL, at=START, clear_number=0).model_dump(mode="json")
    gateway.write_value(row, ["train"], INTENT_KEY, intent)
    assert view(gateway, row).intent is None
    gateway.write_value(row, ["train"], INTENT_KEY, intent | {"clear_number": 1})
    assert view(gateway, row).status is S.CANCELLING


def test_a_cleared_step_shows_its_new_generation(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", clear_number=1), "running")
    gateway.step(row, "train", "failed", record(S.ERROR))
    gateway.step(row, "train", None, max_tries=STEP_RETRIES + 1)
    step = view(gateway, row).steps[0]
    assert (step.generation, step.record, step.status, step.tasks) == (1, None, S.CREATED, [])


def test_a_lost_worker_is_told(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1"), "running")
    gateway.step(row, "train", "up_for_retry", record(S.ACTIVE, status_details={"message": "Job is running"}))
    step = view(gateway, row).steps[0]
    assert step.status is S.ACTIVE
    assert "the next one adopts the workload" in step.status_details["message"]


def test_runs_that_are_no_jobs(gateway: FakeGateway) -> None:
    row = gateway.add("job-1")
    state = gateway.states[row.pk]
    odd = {"conf": {**(row.conf or {}), "spec": {"a": "\ud800"}}}  # no answer could show it
    for changed in ({"run_id": "manual__2026"}, {"conf": {"source": "x"}}, {"conf": None}, {"dag_id": "other"}, odd):
        assert view_of(replace(row, **changed), state, NOW) is None  # type: ignore[arg-type]


def test_a_workload_whose_task_was_skipped_between_two_tries_is_stopped(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "failed", end_date=NOW)
    gateway.states[row.pk] = replace(gateway.states[row.pk], marked_failed_by="bob")
    gateway.step(row, "one", "skipped", record(S.ACTIVE), end_date=START)
    gateway.step(row, "two", "skipped")
    assert view(gateway, row, NOW + timedelta(seconds=59)).status is S.CANCELLING
    job = view(gateway, row, NOW + timedelta(seconds=61))
    assert (job.status, [step.status for step in job.all_steps]) == (S.CANCELLED, [S.CANCELLED, S.CANCELLED])


def test_a_completed_step_that_was_skipped_has_completed(gateway: FakeGateway) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "failed")
    gateway.states[row.pk] = replace(gateway.states[row.pk], marked_failed_by="bob")
    gateway.step(row, "one", "skipped", record(S.COMPLETED))
    gateway.step(row, "two", "skipped")
    job = view(gateway, row)
    assert (job.status, [step.status for step in job.steps]) == (S.CANCELLED, [S.COMPLETED, S.CANCELLED])


@pytest.mark.parametrize("value", ["x", 7, [], {}, {"status": "strange"}, {"status": "active", "created_at": "now"}])
def test_what_others_write_under_our_keys_is_nothing(gateway: FakeGateway, value: Any) -> None:
    row = gateway.run_state(gateway.add("job-1"), "running")
    gateway.step(row, "train", "running")
    for key in ("step/0", "step/1", "step/x", INTENT_KEY, "colour"):
        gateway.write_value(row, ["train"], key, value)
    job = view(gateway, row)
    assert (job.status, job.intent, job.steps[0].record) == (S.PENDING, None, None)
    assert render.job(job)["status"] == "pending"


@pytest.mark.parametrize(
    ("older", "newer", "waits"),
    [
        (None, None, True),
        (S.ERROR, None, True),
        (S.CANCELLED, None, True),
        (S.ACTIVE, None, False),
        (S.ERROR, S.PENDING, False),
    ],
)
def test_a_step_waits_when_nothing_of_it_runs(
    gateway: FakeGateway, older: Status | None, newer: Status | None, waits: bool
) -> None:
    row = gateway.run_state(gateway.add("job-1", clear_number=1), "running")
    gateway.step(row, "train", "failed", record(older) if older else None)
    gateway.step(row, "train", "queued", record(newer) if newer else None, max_tries=STEP_RETRIES + 1)
    assert view(gateway, row).waits is waits
