"""Processes of Airflow are killed at every stage of a job: it ends right, with one execution and a whole log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import sqlalchemy

from nemo_airflow_provider import processes
from tests.e2e import stages
from tests.e2e.lab import Lab, in_parallel
from tests.e2e.stages import Staged, staged_jobs
from tests.stack.airflow import wait_until
from tests.stack.database import unreachable

pytestmark = pytest.mark.needs("postgres")

IN_A_TASK = (
    *(stages.starting(files) for files in (1, 4, 7, 9, 11, 12)),
    stages.at_work,
    stages.stopping,
    stages.unread,
    stages.unreported,
)

IN_A_JOB = (stages.queued, stages.at_work, stages.stopping, stages.unread, stages.unreported)

SUPERVISOR, TASK = 0, 1


@pytest.fixture
def gate(lab: Lab) -> Iterator[None]:
    """What waits at the gate is let go when the test is over."""
    yield
    lab.open_gate(4)
    lab.open_gate(0)


@pytest.mark.parametrize(
    ("process", "signum", "tries"),
    [
        pytest.param(TASK, signal.SIGKILL, 2, id="task-KILL"),
        pytest.param(TASK, signal.SIGTERM, 1, id="task-TERM"),
        # Airflow notices when there was no heartbeat for long enough.
        pytest.param(SUPERVISOR, signal.SIGKILL, 2, id="supervisor-KILL"),
        # A worker that shuts down: the task is put off, not failed.
        pytest.param(SUPERVISOR, signal.SIGTERM, 1, id="supervisor-TERM"),
    ],
)
def test_a_process_of_the_task(lab: Lab, process: int, signum: signal.Signals, tries: int) -> None:
    def strike(staged: Staged) -> None:
        pids = staged.worker()
        os.kill(pids[process], signum)
        staged.thaw()
        # A supervisor that is told to end passes that on, and takes its next task.
        gone = pids[TASK if signum is signal.SIGTERM else process]
        wait_until(lambda: gone not in processes.living(), 60, f"the end of {gone} of {staged.job.name}")

    with staged_jobs(lab, IN_A_TASK, strike) as jobs:
        in_parallel(staged.assert_right for staged in jobs)
        [at_work] = [staged for staged in jobs if staged.stage == "at-work"]
        assert at_work.job.task("work")["try_number"] == tries


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("name", ["scheduler", "api-server", "dag-processor"])
def test_a_component(lab: Lab, gate: None, name: str, signum: signal.Signals) -> None:
    component = lab.stack.server.components[name]
    with staged_jobs(lab, IN_A_JOB) as jobs:
        component.send(signum)
        for staged in jobs:
            staged.thaw()
            if signum is signal.SIGTERM:  # a scheduler that is asked to end waits for its tasks
                staged.marks.enough.touch()
        assert component.wait(120)
        lab.stack.restart(name)
        lab.open_gate(4)
        in_parallel(staged.assert_right for staged in jobs)


#: Long enough for Airflow's own repeats of a statement to be used up.
OUTAGE_SECONDS = 10


def test_the_database_is_away(lab: Lab, gate: None) -> None:
    database = sqlalchemy.make_url(lab.stack.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).database
    assert database
    with staged_jobs(lab, IN_A_JOB) as jobs:
        with unreachable(os.environ["NEMO_TEST_POSTGRES"], database):
            assert lab.http.get(jobs[0].job.url).is_server_error
            for staged in jobs:
                staged.thaw()
            time.sleep(OUTAGE_SECONDS)
        wait_until(lambda: lab.http.get(jobs[0].job.url).is_success, 60, "the API")
        lab.open_gate(4)
        with ThreadPoolExecutor(len(jobs)) as pool:
            ends = [pool.submit(staged.assert_right) for staged in jobs]
            wait_until(lambda: all_done(lab, ends), 180, "the jobs")
            for end in ends:
                end.result()


def all_done(lab: Lab, ends: list[Future[None]]) -> bool:
    """Whether all have ended; on an error of its database the scheduler ends by design, and is started again."""
    lab.stack.server.check()
    return all(end.done() for end in ends)
