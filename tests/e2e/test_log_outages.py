"""The log while it cannot be stored, or is held by an earlier try that does not end: late, and whole."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from tests.e2e import stages
from tests.e2e.lab import Lab, in_parallel
from tests.e2e.stages import Staged, staged_jobs
from tests.stack.airflow import wait_until

pytestmark = pytest.mark.needs("postgres")


def message(staged: Staged) -> str:
    [row] = staged.job.steps()
    return str(row["status_details"]["message"])


def end_command(staged: Staged) -> None:
    staged.marks.enough.touch()
    staged.job.wait_gone()


def may_write(pid: int, size: int) -> None:
    """Limit the size of files that a process writes: what is beyond fails as on a full disk, and needs no root."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))


def test_a_log_store_that_is_full(lab: Lab) -> None:
    with staged_jobs(lab, [stages.at_work] * 3 + [stages.stopping]) as jobs:
        pids = [staged.worker()[1] for staged in jobs]
        for pid in pids:
            may_write(pid, 0)
        for staged in jobs:
            wait_until(
                lambda staged=staged: message(staged).startswith("The log cannot be stored: "),
                60,
                "a word about the disk",
            )
        for staged in jobs[2:]:
            end_command(staged)
        assert [staged.job.get()["status"] for staged in jobs[2:]] == ["active", "cancelling"]
        os.kill(pids.pop(1), signal.SIGKILL)  # its next try has room
        for pid in pids:
            may_write(pid, resource.RLIM_INFINITY)
        in_parallel(staged.assert_right for staged in jobs)


def test_an_earlier_try_that_is_frozen(lab: Lab) -> None:
    """It holds the log, and does not know that there is another try."""
    with staged_jobs(lab, [stages.at_work] * 3 + [stages.stopping]) as jobs:
        workers = [staged.worker() for staged in jobs]
        for staged, worker in zip(jobs, workers, strict=True):
            staged.freeze(*worker)
        for staged in jobs:
            wait_until(
                lambda staged=staged: (
                    message(staged) == "Waiting for the earlier try of this step to let go of its log"
                ),
                120,
                "the next try",
            )
            assert staged.job.task("work")["try_number"] == 2
        for staged in jobs[2:]:
            end_command(staged)
        assert [staged.job.get()["status"] for staged in jobs[2:]] == ["active", "cancelling"]
        for pid in workers[1]:
            os.kill(pid, signal.SIGKILL)
        for staged in jobs:
            staged.thaw()
        in_parallel(staged.assert_right for staged in jobs)
