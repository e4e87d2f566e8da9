"""How a step's end looks: the log is whole by the time the status is terminal, and the reason is named."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.lab import TERMINAL, Lab, deaf, numbered, polite, python, step
from tests.stack.airflow import wait_until

FAILING = python("import sys", "for i in range(50): print(f'line {i}')", "sys.exit(3)")


# Twenty jobs at once are too many for Airflow on SQLite: its one writer's place is taken for seconds.
@pytest.mark.needs("postgres")
def test_the_log_is_whole_at_the_first_terminal_status(lab: Lab) -> None:
    jobs = [lab.submit("fails", step("work", FAILING)) for _ in range(20)]

    ends = {}
    deadline = time.monotonic() + 120
    while len(ends) < len(jobs):
        # One after another: so many pollers at once would leave no processor to the jobs.
        for job in jobs:
            if job.name not in ends and (status := job.get("/status"))["status"] in TERMINAL:
                ends[job.name] = status, job.messages()
            assert time.monotonic() < deadline, job.name
    for status, messages in ends.values():
        assert messages == numbered(50)
        assert status["status"] == "error"
        [work] = status["steps"]
        assert work["status"] == "error"
        assert "3" in work["status_details"]["message"]
        assert work["error_details"]["exit_code"] == status["error_details"]["exit_code"] == 3
        [task] = work["tasks"]
        assert task["status"] == "error"
        assert task["error_stack"].endswith("line 49")


def test_a_failed_step_ends_the_job_there(lab: Lab) -> None:
    marks = lab.marks()
    job = lab.submit("stops", step("first", python("raise SystemExit(7)")), step("then", python(marks.code)))
    assert job.wait("error")["error_details"]["exit_code"] == 7
    assert [one["name"] for one in job.steps()] == ["first"]
    assert not marks.pids


def test_the_active_time_limit(lab: Lab) -> None:
    text = "Job timed out after reaching max TTL of 2 seconds"
    jobs = [lab.submit("limit", step("work", command(lab.marks()), "limited")) for command in (polite, deaf)]
    for job in jobs:
        ended = job.wait("error")
        assert ended["error_details"]["message"] == ended["status_details"]["message"] == text
        assert job.messages()[0] == "up"
        job.wait_gone()


def test_no_sign_of_life(lab: Lab) -> None:
    silent = step("work", polite(lab.marks(), 600)) | {"lifecycle": {"staleness_timeout_seconds": 2}}
    job = lab.submit("stale", silent)
    ended = job.wait("error")
    text = "Job terminated: no task updates received within 2s staleness threshold"
    assert ended["error_details"]["message"] == ended["status_details"]["message"] == text
    assert [task["status"] for task in job.get("/steps/work/tasks")["data"]] == ["error"]
    job.wait_gone()


def test_a_command_that_cannot_be_started(lab: Lab) -> None:
    jobs = [lab.submit("start", step("work", [word])) for word in ("no-such-program", "/etc/passwd")]
    missing, forbidden = (job.wait("error")["error_details"] for job in jobs)
    assert missing["message"] == "Failed to start subprocess: executable not found: no-such-program"
    assert "[Errno 2]" in missing["error"]
    assert forbidden["message"] == "Failed to start subprocess: permission denied: /etc/passwd"
    for job in jobs:
        [work] = job.steps()
        assert work["status"] == "error"
        assert work["tasks"] == []
        assert job.messages() == []


def test_a_workload_that_vanishes_is_lost_and_not_run_again(lab: Lab) -> None:
    marks = lab.marks()
    job = lab.submit("lost", step("work", polite(marks)))
    job.wait_for_line("up")
    [pid] = marks.pids
    with open(f"/proc/{pid}/stat") as stat:
        supervisor = int(stat.read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    ended = job.wait("error")
    assert ended["error_details"]["reason"] == "LostWorkload"
    assert os.uname().nodename in ended["error_details"]["message"]
    assert job.messages() == ["up"]
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 10, "the end of the command")
    assert len(marks.pids) == 1
