"""Steps that are cleared at bad moments: a new execution after the end of the old one, never beside it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from nemo_airflow_provider import processes
from tests.e2e import stages
from tests.e2e.lab import Job, Lab, in_parallel, numbered
from tests.e2e.stages import Staged, clear, staged_jobs
from tests.stack.airflow import stopped, wait_until

pytestmark = pytest.mark.needs("postgres")


def last_execution(job: Job) -> list[str]:
    """The log from the newest `line 0` on."""
    messages = job.messages()
    return messages[len(messages) - messages[::-1].index("line 0") - 1 :]


def assert_ran_again(staged: Staged) -> None:
    """A second execution ends the job, and its log is whole."""
    wait_until(lambda: len(staged.marks.pids) == 2, 300, f"the second execution of {staged.job.name}")
    staged.marks.enough.touch()
    staged.job.wait("completed", timeout_seconds=120)
    *counted, end = last_execution(staged.job)
    assert counted == numbered(len(counted))
    assert end == f"the end {len(counted)}"
    assert len(staged.marks.pids) == 2
    assert not [text for text in staged.job.messages() if text.startswith("beside")]
    staged.job.wait_gone()


def test_cleared_at_work_and_killed(lab: Lab) -> None:
    """Airflow keeps of such a clear only what the step's process has noted before its death."""
    with staged_jobs(lab, [stages.at_work, stages.told_to_stop_by_clear]) as [unheard, heard]:
        unheard.freeze(*unheard.worker())
        clear(unheard.job)
        for staged in (unheard, heard):
            for pid in staged.worker():
                processes.send(pid, signal.SIGKILL)
        heard.marks.enough.touch()
        in_parallel([unheard.assert_right, partial(assert_ran_again, heard)])


def test_cleared_while_it_waits_for_a_retry(lab: Lab) -> None:
    with staged_jobs(lab, [stages.at_work]) as [staged]:
        with waiting_for_retry(lab, staged.job):
            clear(staged.job)
        assert_ran_again(staged)


@contextmanager
def waiting_for_retry(lab: Lab, job: Job) -> Iterator[None]:
    """The step's try has failed; for the length of the block the next one does not come.

    The scheduler, which ends the wait after a second, is stopped in it; when that comes too late, the next try is lost
    as well.
    """
    for _ in range(3):
        job.kill_task("work")
        wait_until(lambda: job.task("work")["state"] == "up_for_retry", 60, "the end of the try")
        with stopped(lab.stack.server.components["scheduler"]):
            if job.task("work")["state"] == "up_for_retry":
                yield
                return
        wait_until(lambda: job.task("work")["state"] == "running", 60, "the next try")
    raise AssertionError(f"{job.name} was never caught waiting for a retry")


def test_cleared_while_paused(lab: Lab) -> None:
    with staged_jobs(lab, [stages.paused, partial(stages.paused, profile="freezing")]) as jobs:
        for staged in jobs:
            clear(staged.job)
        in_parallel(partial(assert_ran_again, staged) for staged in jobs)
