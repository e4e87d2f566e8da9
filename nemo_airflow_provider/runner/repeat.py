"""A workload that fails is started again: by itself, as often as the author of its DAG allows; by a fault of the
platform, as often as its profile does: pure.

The decision is stored as the end of the failed workload's task row in a record that is not terminal; whichever try
reads that begins the next start. Airflow's retries are for lost workers and start nothing again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from nemo_airflow_provider.errors import Fault, InvalidJob
from nemo_airflow_provider.model.record import StepRecord, TaskRecord
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.outcome import Outcome

#: Each failed workload keeps a task row in the step's record; see `runner.shorten`.
MOST_TIMES = 100
_LONGEST_SECONDS = 300.0
_PLATFORM: Fault = "platform"
#: The first pause after a fault of the platform, in which an engine comes back.
_PLATFORM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often, and after which pause.

    :param times: starts beside the first
    :param first_delay: seconds before the first of them; doubles with each, up to five minutes
    """

    times: int = 0
    first_delay: float = 10.0

    @classmethod
    def of(cls, step_retries: object, step_retry_delay: object) -> Repeats:
        """What an author asked for.

        :raises InvalidJob: naming the parameter
        """
        if isinstance(step_retries, bool) or not isinstance(step_retries, int) or not 0 <= step_retries <= MOST_TIMES:
            raise InvalidJob(f"step_retries: {step_retries!r} is no whole number from 0 to {MOST_TIMES}.")
        seconds = step_retry_delay.total_seconds() if isinstance(step_retry_delay, timedelta) else step_retry_delay
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            raise InvalidJob(f"step_retry_delay: {step_retry_delay!r} is no timedelta or number of seconds from 0 on.")
        return cls(step_retries, float(seconds))

    def allow(self, outcome: Outcome, record: StepRecord | None, task_name: str, platform_times: int) -> bool:
        """Whether a workload that ended so is to be started again.

        Only an end that the engine saw, or made, counts: no limit that ran out, no cancel, no loss.

        :param record: of the step, before the end is written down
        :param platform_times: starts beside the first that faults of the platform may cost
        """
        platform = outcome.error.get("fault") == _PLATFORM
        if outcome.status is not Status.ERROR or (outcome.error.get("exit_code") is None and not platform):
            return False
        failed = {row.name for row in _failed(record) if _is_of_platform(row) is platform} if record else set()
        return len(failed | {task_name}) <= (platform_times if platform else self.times)

    def due(self, record: StepRecord) -> datetime | None:
        """When the next start is to begin; None when none is to follow what the record holds."""
        row = failed_start(record)
        if row is None:
            return None
        platform = _is_of_platform(row)
        failed = sum(_is_of_platform(each) is platform for each in _failed(record))
        first = _PLATFORM_SECONDS if platform else self.first_delay
        # The exponent is bounded before it is used: a hundred doublings are no number of seconds.
        delay = min(first * 2 ** min(failed - 1, 20), _LONGEST_SECONDS)
        return row.updated_at + timedelta(seconds=delay)


def failed_start(record: StepRecord | None) -> TaskRecord | None:
    """The row of the last start, if it failed and another is to follow it."""
    if record is None or record.status.terminal or record.handle is None:
        return None
    last = record.handle.start
    return next((row for row in _failed(record) if row.start == last), None)


def _failed(record: StepRecord) -> list[TaskRecord]:
    return [row for row in record.tasks if row.status is Status.ERROR]


def _is_of_platform(row: TaskRecord) -> bool:
    return row.error_details.get("fault") == _PLATFORM
