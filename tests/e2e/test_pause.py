"""Pausing at every moment of a job's life, and resuming: one workload at a time, no line lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
import sqlalchemy

from nemo_airflow_provider import processes
from tests.e2e.lab import Job, Lab, Marks, counting, deaf, numbered, polite, python, step
from tests.stack.airflow import wait_until

#: Airflow's scheduler has read how a task's process ended within its `[workers] min_heartbeat_interval`, 5 s, and some.
FORGOTTEN_SECONDS = 6.0
TASKS = sqlalchemy.table(
    "task_instance",
    sqlalchemy.column("id", sqlalchemy.Uuid()),
    sqlalchemy.column("updated_at", sqlalchemy.DateTime(timezone=True)),
)


@pytest.fixture
def gate(lab: Lab) -> Iterator[None]:
    """What waits at the gate is let go when the test is over."""
    yield
    lab.open_gate(4)
    lab.open_gate(0)


def starts(job: Job) -> list[list[str]]:
    """The log, cut before each `line 0`."""
    found: list[list[str]] = []
    for message in job.messages():
        if message == "line 0":
            found.append([])
        found[-1].append(message)
    return found


def finish(job: Job, marks: Marks) -> None:
    marks.enough.touch()
    job.wait("completed", timeout_seconds=120)


def is_still(job: Job) -> bool:
    table = processes.living()
    return all(table[pid].stopped or table[pid].blocked for pid in job.workloads() if pid in table)


def test_stopped_and_begun_anew_five_times(lab: Lab) -> None:
    marks = lab.marks()
    job = lab.submit("stop", step("work", counting(marks)))
    tries: list[int] = []
    for number in range(1, 6):
        wait_until(lambda number=number: len(marks.pids) == number, 60, "the next start")
        job.wait_for_line(f"line {number}")
        tries.append(job.task("work")["try_number"])
        assert job.pause()["status"] in ("pausing", "paused")
        paused = job.wait("paused")
        assert paused["status_details"]["message"] == "Job paused with exit code -15"
        assert not job.workloads()
        if number == 2:
            job.wait_parked("work")
            assert job.get()["status"] == "paused"
        assert job.pause()["status"] == "paused"
        assert job.resume()["status"] in ("resuming", "active")
    wait_until(lambda: len(marks.pids) == 6, 60, "the last start")
    finish(job, marks)
    for lines in starts(job):
        counted = [line for line in lines if line.startswith("line")]
        assert counted == numbered(len(counted))
    assert [len(lines) > 0 for lines in starts(job)] == [True] * 6
    [row] = job.steps()
    tasks = [(task["status"], task["status_details"]["message"]) for task in row["tasks"]]
    assert tasks[:-1] == [("cancelled", "Paused")] * 5
    assert tasks[-1][0] == "completed"
    # A try that a busy machine loses before it begins has a number too, so the one that parks may not be the next.
    assert tries == [tries[0]] * 2 + [tries[2]] * 3
    assert not queued_too_early(lab, job)


def queued_too_early(lab: Lab, job: Job) -> list[str]:
    """What Airflow says of tries that it failed for having been queued before it knew of the end of the last one."""
    _, _, dag, _, run = job.run_path.split("/")
    entries = lab.airflow("GET", "/eventLogs", dag_id=dag, run_id=run, event="state mismatch")["event_logs"]
    return [entry["extra"] for entry in entries if "finished with state success" in entry["extra"]]


def test_frozen_and_let_go_on_five_times(lab: Lab) -> None:
    marks = lab.marks()
    job = lab.submit("freeze", step("work", counting(marks), "freezing"))
    job.wait_for_line("line 5")
    for number in range(5):
        job.pause()
        assert job.wait("paused")["status_details"]["message"] == "Job is paused"
        assert job.workloads() and is_still(job)
        if number == 2:
            job.wait_parked("work")
            assert is_still(job)
        lines = len(job.messages())
        job.resume()
        job.wait("active")
        wait_until(lambda lines=lines: len(job.messages()) > lines, 60, "the next line")
    finish(job, marks)
    *counted, _ = job.messages()
    assert counted == numbered(len(counted))
    assert len(marks.pids) == 1
    [row] = job.steps()
    assert [task["status"] for task in row["tasks"]] == ["completed"]


def test_a_paused_job_gives_its_slot_to_another(lab: Lab, gate: None) -> None:
    lab.open_gate(1)
    marks = lab.marks()
    job = lab.submit("holder", step("work", counting(marks), "gated"))
    job.wait_for_line("line 1")
    job.pause()
    job.wait_parked("work")
    other = lab.submit("other", step("work", python("print('ok')"), "gated"))
    other.wait("completed")
    assert job.get()["status"] == "paused"
    job.resume()
    wait_until(lambda: len(marks.pids) == 2, 60, "the second start")
    finish(job, marks)


@pytest.mark.parametrize("steps", [1, 2])
def test_what_has_not_begun_rests_at_once_and_when_it_gets_its_slot(lab: Lab, gate: None, steps: int) -> None:
    marks = lab.marks()
    first = [step("first", python("print('one')"))] if steps == 2 else []
    job = lab.submit("early", *first, step("work", python(marks.code), "gated"))
    if first:
        job.wait_for_line("one")
    wait_until(lambda: job.task("work")["state"] in ("scheduled", "queued"), 60, "the gate")
    assert job.pause()["status"] == "paused"
    lab.open_gate(4)
    job.wait_parked("work")
    assert job.get()["status"] == "paused"
    assert not marks.pids
    job.resume()
    job.wait("completed")
    assert len(marks.pids) == 1


@pytest.mark.parametrize("profile", ["default", "freezing"])
@pytest.mark.parametrize("parked", [False, True])
def test_cancel_of_a_paused_job(lab: Lab, profile: str, parked: bool) -> None:
    marks = lab.marks()
    job = lab.submit("cancel", step("work", polite(marks, 600), profile))
    job.wait_for_line("up")
    job.pause()
    job.wait("paused")
    if parked:
        job.wait_parked("work")
    assert job.cancel()["status"] in ("cancelling", "cancelled")
    job.wait("cancelled")
    job.wait_gone()
    assert job.messages() == ["up", "bye"]
    assert job.resume()["status"] == job.pause()["status"] == "cancelled"


def test_cancel_and_resume_while_it_is_pausing(lab: Lab) -> None:
    cancelled, resumed = (lab.submit("pausing", step("work", deaf(lab.marks()))) for _ in range(2))
    for job in (cancelled, resumed):
        job.wait_for_line("up")
        assert job.pause()["status"] == "pausing"
        job.wait_for_line("no")
    assert cancelled.cancel()["status"] == "cancelling"
    assert resumed.resume()["status"] == "resuming"
    cancelled.wait("cancelled")
    resumed.wait("active")
    wait_until(lambda: resumed.messages() == ["up", "no", "up"], 60, "the second start")
    assert len(resumed.workloads()) == 1
    resumed.cancel()


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("profile", ["default", "freezing"])
def test_a_pause_outlives_its_worker(lab: Lab, profile: str) -> None:
    marks = lab.marks()
    job = lab.submit("killed", step("work", counting(marks), profile))
    job.wait_for_line("line 5")
    job.pause()
    job.wait("paused")
    first = job.task("work")["try_number"]
    job.kill_task("work")
    wait_until(lambda: job.task("work")["try_number"] > first, 60, "the next try")
    job.wait_parked("work")
    assert job.get()["status"] == "paused"
    assert is_still(job)
    job.resume()
    job.wait("active")
    finish(job, marks)
    assert len(marks.pids) == (1 if profile == "freezing" else 2)


@pytest.mark.parametrize(("option", "status"), [("Resume", "completed"), ("Cancel", "cancelled")])
def test_the_answer_on_airflows_pages_is_for_the_whole_job(lab: Lab, option: str, status: str) -> None:
    marks, later = lab.marks(), lab.marks()
    job = lab.submit("page", step("work", counting(marks), "freezing"), step("later", python(later.code)))
    job.wait_for_line("line 5")
    job.pause()
    job.wait_parked("work")
    path = f"{job.run_path}/taskInstances/work/-1/hitlDetails"
    asked = lab.airflow("GET", path)
    assert (asked["options"], asked["assigned_users"]) == (["Resume", "Cancel"], [])
    assert job.name in asked["subject"]
    marks.enough.touch()
    # A person needs longer than this to find the button; see `Waking`.
    wait_until(lambda: seconds_parked(lab, job) > FORGOTTEN_SECONDS, 60, "the task's process to be forgotten")
    lab.airflow("PATCH", path, {"chosen_options": [option], "params_input": {}})
    job.wait(status)
    job.wait_gone()
    assert len(marks.pids) == 1
    assert len(later.pids) == (1 if status == "completed" else 0)


def seconds_parked(lab: Lab, job: Job) -> float:
    """How long ago Airflow wrote down that the job's task has given its worker slot back."""
    query = sqlalchemy.select(TASKS.c.updated_at).where(TASKS.c.id == UUID(job.task("work")["id"]))
    with lab.database() as connection:
        parked: datetime = connection.execute(query).scalar_one()
    # SQLite leaves the zone out, which is UTC.
    return (datetime.now(UTC) - (parked if parked.tzinfo else parked.replace(tzinfo=UTC))).total_seconds()


def test_a_paused_step_that_is_cleared_runs_anew_and_the_job_goes_on(lab: Lab) -> None:
    marks = lab.marks()
    job = lab.submit("clear", step("work", counting(marks), "freezing"), step("later", python("print('later')")))
    job.wait_for_line("line 5")
    job.pause()
    job.wait_parked("work")
    dag, run = job.run_path.split("/")[2], job.run_path.split("/")[4]
    body = {"dry_run": False, "dag_run_id": run, "task_ids": ["work"], "only_failed": False}
    lab.airflow("POST", f"/dags/{dag}/clearTaskInstances", body)
    wait_until(lambda: len(marks.pids) == 2, 60, "the rerun")
    assert marks.pids[0] not in job.workloads()
    finish(job, marks)
    assert job.messages()[-1] == "later"
