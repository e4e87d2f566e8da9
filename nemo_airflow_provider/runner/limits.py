"""Which limit of a step has run out: pure (job specification contract §9, choices: TTLs and staleness).

A limit ends as the sentence that the step's record gets. What an engine alone can know, such as how long an image has
not been pulled, is a sentence of its backend and takes the same way (`Journal.expire`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nemo_airflow_provider.backends.base import BackendConfig, Phase
from nemo_airflow_provider.model.record import StepRecord
from nemo_airflow_provider.model.spec import StepSpec
from nemo_airflow_provider.model.status import Status

#: When the workload printed its last stored line; None when it has not, asked only when nothing else is recent.
LastLine = Callable[[], datetime | None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a step may take, in seconds.

    :param before_active: from the start's submit until its workload runs; not while it resumes
    :param active: of running; pending and paused time do not count
    :param staleness: without a sign of life while it runs; 0 or less switches it off
    :param engine_timer: how much later than an engine's own timer for `active` ours goes off
    """

    before_active: float
    active: float
    staleness: float = 0
    engine_timer: float = 0.0

    @classmethod
    def of(cls, step: StepSpec, config: BackendConfig, engine_timer: float) -> Limits:
        """The limits of a step under its profile."""
        return cls(
            before_active=config.ttl_seconds_before_active,
            active=config.ttl_seconds_active,
            staleness=step.lifecycle.staleness_timeout_seconds,
            engine_timer=engine_timer,
        )

    def expired(
        self, record: StepRecord, task_name: str, phase: Phase, moment: datetime, last_line: LastLine
    ) -> str | None:
        """Why the step must end, if one of its limits has run out.

        :param record: the step's record now
        :param task_name: the workload's task row
        :param phase: of the workload, which lives
        :param moment: now
        """
        if phase is Phase.PENDING:
            return self.expired_before_active(record, task_name, moment)
        if record.started_at is None:
            return None
        running = (moment - record.started_at).total_seconds() - record.paused_until(moment)
        if running > self.active + self.engine_timer:
            return timed_out(self.active)
        if self._is_stale(record, task_name, moment, last_line):
            return stale(self.staleness)
        return None

    def expired_before_active(self, record: StepRecord, task_name: str, moment: datetime) -> str | None:
        """Why a start that does not run yet must end, if it has waited too long.

        One that is not written down yet waits since something else was, unless that is a pause.
        """
        row = record.task(task_name)
        if record.status is Status.RESUMING or (row is None and record.rests):
            return None
        since = record.updated_at if row is None else row.created_at
        paused = record.paused_before_seconds + record.paused_until(moment)
        waited = (moment - since).total_seconds() - paused
        return timed_out(self.before_active) if waited > self.before_active else None

    def expired_unseen(self, record: StepRecord, task_name: str, moment: datetime) -> str | None:
        """Why a step must end whose engine does not answer, if a limit has run out: nobody can tell whether its
        workload gives signs of life."""
        phase = Phase.PENDING if record.started_at is None else Phase.RUNNING
        return self.expired(record, task_name, phase, moment, lambda: moment)

    def _is_stale(self, record: StepRecord, task_name: str, moment: datetime, last_line: LastLine) -> bool:
        """Whether start, newest update and last line are all too long ago."""
        if self.staleness <= 0 or record.status is not Status.ACTIVE:
            return False
        row = record.task(task_name)
        signs = [record.started_at, record.updated_at, row.updated_at if row else None]
        return not any(self._is_recent(sign, moment) for sign in signs) and not self._is_recent(last_line(), moment)

    def _is_recent(self, sign: datetime | None, moment: datetime) -> bool:
        return sign is not None and (moment - sign).total_seconds() <= self.staleness


def timed_out(seconds: float) -> str:
    """Text of a TTL that ran out."""
    return f"Job timed out after reaching max TTL of {seconds:.0f} seconds"


def stale(seconds: float) -> str:
    """Text of a step that gave no sign of life."""
    return f"Job terminated: no task updates received within {seconds:.0f}s staleness threshold"
