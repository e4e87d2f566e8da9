"""What becomes of a step whose engine does not answer any more."""

from __future__ import annotations

from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.limits import Limits
from nemo_airflow_provider.runner.outcome import Outcome, timed_out_while
from nemo_airflow_provider.runner.task import StepTask
from nemo_airflow_provider.runner.wishes import Wishes

_CANCELLED = "Job was cancelled; its engine does not answer, and what runs there is ended once it does"


class Unseen(Exception):
    """A limit has run out while the engine was away, or the step was cancelled: the workload may run on, and the sweep
    ends it once the engine is back."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Absence:
    """Tells it to the user, and bounds it by the step's limits and by a cancel.

    :param least_seconds: an engine is away at least so long before one of them counts
    """

    def __init__(self, task: StepTask, journal: Journal, limits: Limits, wishes: Wishes, least_seconds: float) -> None:
        self._task = task
        self._journal = journal
        self._limits = limits
        self._wishes = wishes
        self._least_seconds = least_seconds

    def goes_on(self, reason: str, seconds: float) -> None:
        """A question had no answer.

        :param reason: why
        :param seconds: how long there has been none
        :raises Unseen: a limit has run out, or an end is wished
        """
        record = self._journal.record
        if record is None or record.handle is None:
            return
        name = self._task.key(record.handle.start).task
        if self._wishes.cancelled:
            row = record.task(name)
            if row is None or row.status.terminal:  # of a start that has failed, before another
                self._journal.explain(reason)
            else:
                self._journal.update(Status.CANCELLING, f"Job is cancelling. {reason}", {}, name)
            if seconds >= self._least_seconds:
                raise Unseen(Outcome(Status.CANCELLED, f"{_CANCELLED}: {reason}"))
            return
        self._journal.explain(reason)
        limit = self._limits.expired_unseen(record, name, self._journal.now())
        if limit is not None and seconds >= self._least_seconds:
            raise Unseen(timed_out_while(limit, reason))
