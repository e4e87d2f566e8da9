"""Special deaths of Airflow's processes, beside `test_kill_matrix`: a step runs once, and its log is whole."""

from __future__ import annotations

import time

import pytest
import sqlalchemy

from nemo_airflow_provider import processes
from tests.e2e.lab import Job, Lab, Marks, counting, in_parallel, numbered, step
from tests.stack.airflow import stopped, wait_until


def submit_counting(lab: Lab, count: int) -> list[tuple[Job, Marks]]:
    jobs = []
    for _ in range(count):
        marks = lab.marks()
        jobs.append((lab.submit("crash", step("work", counting(marks))), marks))
    return jobs


def assert_ran_once(job: Job, marks: Marks, timeout_seconds: float = 60) -> None:
    """Let the job end: every line is there once, from one execution."""
    marks.enough.touch()
    job.wait("completed", timeout_seconds=timeout_seconds)
    *counted, end = job.messages()
    assert counted == numbered(len(counted))
    assert end == f"the end {len(counted)}"
    assert len(marks.pids) == 1


def test_a_killed_task_is_adopted(lab: Lab) -> None:
    jobs = submit_counting(lab, 4)

    def kill(job: Job) -> None:
        job.wait_for_line("line 20")
        job.kill_task("work")

    in_parallel(lambda job=job: kill(job) for job, _ in jobs)
    for job, _ in jobs:
        wait_until(lambda job=job: job.task("work")["try_number"] == 2, 60, "the second try")
    for job, marks in jobs:
        assert_ran_once(job, marks)
        assert job.task("work")["try_number"] == 2


def test_an_api_server_that_is_away(lab: Lab) -> None:
    [(job, marks)] = submit_counting(lab, 1)
    job.wait_for_line("line 5")
    lab.stack.kill_all("api-server")
    lab.stack.restart("api-server")
    assert_ran_once(job, marks)


#: Transactions that have locked runs and wait for their client to go on.
LOCKED_RUNS = sqlalchemy.text(
    "SELECT activity.pid, activity.xact_start FROM pg_stat_activity activity JOIN pg_locks USING (pid) "
    "WHERE activity.datname = current_database() AND activity.state = 'idle in transaction' "
    "AND relation = 'dag_run'::regclass AND mode = 'RowShareLock' AND granted"
)


def kill_scheduler_holding_locks(lab: Lab) -> None:
    """SIGKILL the scheduler's main process in the middle of a transaction that has locked runs."""
    scheduler = lab.stack.server.components["scheduler"]

    def caught() -> bool:
        with stopped(scheduler):
            seen = set(connection.execute(LOCKED_RUNS))
            time.sleep(0.1)  # what others have open is over then
            if not seen & set(connection.execute(LOCKED_RUNS)):
                return False
            lab.stack.kill("scheduler")
            return True

    with lab.database() as connection:
        wait_until(caught, 60, "the scheduler in the middle of a transaction")


@pytest.mark.needs("postgres")
def test_a_scheduler_killed_while_it_holds_locks(lab: Lab) -> None:
    """Its locks go with it, though workers of it live on; tasks at work are left to them, idle workers end."""
    jobs = submit_counting(lab, 3)
    for job, _ in jobs:
        job.wait_for_line("line 5")
    *ends_meanwhile, (goes_on, goes_on_marks) = jobs
    at_work = goes_on.worker("work")
    assert at_work
    kill_scheduler_holding_locks(lab)
    lab.stack.restart("scheduler")
    for job, marks in ends_meanwhile:
        assert_ran_once(job, marks)
    assert set(at_work) <= set(processes.living())
    assert_ran_once(goes_on, goes_on_marks)
    scheduler = lab.stack.server.components["scheduler"]

    def alone() -> bool:
        lab.stack.server.check()
        return not scheduler.remains()

    wait_until(alone, 60, "the end of the old scheduler's workers")


@pytest.mark.needs("postgres")
def test_a_scheduler_killed_with_its_workers_and_tasks(lab: Lab) -> None:
    """Airflow notices after its `orphaned_tasks_check_interval`, when the old scheduler is stale."""
    jobs = submit_counting(lab, 2)
    for job, _ in jobs:
        job.wait_for_line("line 5")
    lab.stack.kill_all("scheduler")
    lab.stack.restart("scheduler")
    for job, marks in jobs:
        assert_ran_once(job, marks, 150)
