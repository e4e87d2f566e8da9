"""Processes of Airflow are killed in the middle of a step: it runs once, and its log is whole."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.lab import Job, Lab, Marks, counting, in_parallel, numbered, step
from tests.stack.airflow import wait_until

LINES = 150


def submit_counting(lab: Lab, count: int) -> list[tuple[Job, Marks]]:
    jobs = []
    for _ in range(count):
        marks = lab.marks()
        jobs.append((lab.submit("crash", step("work", counting(marks, LINES))), marks))
    return jobs


def assert_ran_once(job: Job, marks: Marks, timeout_seconds: float = 60) -> None:
    job.wait("completed", timeout_seconds=timeout_seconds)
    assert job.messages() == numbered(LINES)
    assert len(marks.pids) == 1


def test_a_killed_task_is_adopted(lab: Lab) -> None:
    jobs = submit_counting(lab, 4)

    def kill(job: Job) -> None:
        job.wait_for_line("line 20")
        job.kill_task("work")

    in_parallel(lambda job=job: kill(job) for job, _ in jobs)
    for job, marks in jobs:
        assert_ran_once(job, marks)
        assert job.task("work")["try_number"] == 2


def test_a_task_killed_while_it_submits_submits_once(lab: Lab) -> None:
    """The moment is caught by how much the start has left in the file system."""
    moments = [1, 3, 5, 7, 9, 10, 11, 12]
    jobs = submit_counting(lab, len(moments))

    def kill(job: Job, files: int) -> None:
        folder = lab.stack.home / "workloads" / "default" / job.name
        pid = wait_until(lambda: job.worker("work"), 30, "the task process")
        assert pid
        wait_for_files(folder, files)
        os.kill(pid[1], signal.SIGKILL)

    in_parallel(lambda job=job, files=files: kill(job, files) for (job, _), files in zip(jobs, moments, strict=True))
    for job, marks in jobs:
        assert_ran_once(job, marks)
        assert job.task("work")["try_number"] == 2


def wait_for_files(folder: Path, count: int) -> None:
    """As `wait_until`, almost without its pauses: the moments looked for are milliseconds apart."""
    deadline = time.monotonic() + 30
    while len(list(folder.rglob("*"))) < count:
        assert time.monotonic() < deadline, f"no {count} files below {folder}"
        time.sleep(0.001)


def test_a_worker_that_shuts_down_leaves_its_workload(lab: Lab) -> None:
    [(job, marks), (other, other_marks)] = submit_counting(lab, 2)
    job.wait_for_line("line 20")
    found = job.worker("work")
    assert found
    os.kill(found[0], signal.SIGTERM)
    assert_ran_once(job, marks)
    assert job.task("work")["try_number"] == 1  # put off, not failed
    assert_ran_once(other, other_marks)


def test_an_api_server_that_is_away(lab: Lab) -> None:
    [(job, marks)] = submit_counting(lab, 1)
    job.wait_for_line("line 5")
    lab.stack.kill_all("api-server")
    lab.stack.restart("api-server")
    assert_ran_once(job, marks)


@pytest.mark.needs("postgres")
def test_a_killed_scheduler_that_is_started_again(lab: Lab) -> None:
    jobs = submit_counting(lab, 3)
    for job, _ in jobs:
        job.wait_for_line("line 5")
    lab.stack.kill("scheduler")
    lab.stack.restart("scheduler")
    for job, marks in jobs:
        assert_ran_once(job, marks, 120)


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
