"""The door: a step from whatever an earlier try left to its end, a pause, or the next worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from nemo_airflow_provider.backends.base import Backend, BackendConfig
from nemo_airflow_provider.errors import NemoJobsError
from nemo_airflow_provider.model.record import RESUMED_KEY, StepRecord, now
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.loop import StepLoop, report
from nemo_airflow_provider.runner.outcome import Outcome
from nemo_airflow_provider.runner.task import Answer, StepHost, StepLeft, StepTask, insist
from nemo_airflow_provider.runner.timing import Timing
from nemo_airflow_provider.runner.wishes import Wishes


def run_step(
    task: StepTask,
    host: StepHost,
    timing: Timing | None = None,
    answer: Answer | None = None,
    clock: Callable[[], datetime] = now,
) -> Any:
    """Run the step to its end, or adopt what an earlier try began.

    :param answer: what the request of a parked step was answered with
    :param clock: what limits and the record's times are read from
    :return: what its result file holds, if it has one
    :raises StepParked: it is paused, and its worker slot is given back
    :raises StepFailed: the step is over and did not complete
    :raises StepLeft: this worker must go; the workload runs on
    :raises Superseded: another try has taken over; touch nothing
    """
    timing = timing or Timing()
    journal = Journal(task, host, clock)
    record = journal.read()
    wishes = Wishes(host, journal, timing, task.steps_before)
    if record is not None:
        _heed(answer, record, journal, wishes)
        _hand_on(task, record, host)
    if record is not None and record.status.terminal:
        report(Outcome(record.status, str(record.status_details.get("message", record.status))))
        return journal.result() if task.result_file else None
    if task.refusal is not None and (record is None or record.handle is None):
        journal.fail(task.refusal)
    backend, config = _open(task, host, journal, timing)
    loop = StepLoop(task, host, journal, backend, config, wishes, timing)
    loop.run()
    return loop.result


def _heed(answer: Answer | None, record: StepRecord, journal: Journal, wishes: Wishes) -> None:
    """Take the answer in; a resume is written down first, since a next try would not be told of it."""
    if answer is None or record.status.terminal:
        return
    if answer.action is Action.CANCEL:
        wishes.cancel()
    else:
        record.resumed_at, record.parked_at = max(answer.at, record.resumed_at or answer.at), None
        journal.store()


def _hand_on(task: StepTask, record: StepRecord, host: StepHost) -> None:
    """Leave word for later steps, whom the same pause would stop otherwise. Each try does: the one before it left
    nothing that lasts."""
    if record.resumed_at is not None and not task.is_last:
        value = record.resumed_at.isoformat()
        insist(host, lambda: host.hand_on(RESUMED_KEY, value))


def _open(task: StepTask, host: StepHost, journal: Journal, timing: Timing) -> tuple[Backend, BackendConfig]:
    """The backend; a workload that was begun is not given up for a configuration that is being mended."""
    while True:
        try:
            return task.open_backend()
        except NemoJobsError as error:
            if journal.record is None or journal.record.handle is None:
                journal.fail(str(error))
            journal.explain(f"The step's workload cannot be watched: {error}")
            if host.terminated.wait(timing.intent_later):
                raise StepLeft(str(error)) from error
