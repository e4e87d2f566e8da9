"""One step of a job as the wire shows it: out of its task instance and the records of its generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.errors import LostWorkload
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import StepRecord, TaskRecord
from nemo_airflow_provider.model.spec import StepSpec
from nemo_airflow_provider.model.status import WAITING, Status
from nemo_airflow_provider.service.gateway import TaskRow

if TYPE_CHECKING:
    from nemo_airflow_provider.service.view import JobView

LOST_TEXT = (
    "Airflow ended this step without a word from its worker: the worker was lost more often than the step is "
    "retried, or it could not be started. See the task log in Airflow."
)
LOST_ERROR = {"message": LOST_TEXT, "reason": LostWorkload.code}
REATTACH_TEXT = "The worker of this step was lost or is restarting; the next one adopts the workload"

_PAUSES = (Status.PAUSING, Status.PAUSED, Status.RESUMING)


@dataclass(frozen=True)
class StepView:
    """One step of a job as it stands.

    :param generation: the current one
    :param records: what the runners of its generations left
    :param created_at: when the step before it ended: the step's row dates from then
    """

    job: JobView
    index: int
    spec: StepSpec
    task: TaskRow | None
    status: Status
    generation: int
    records: Mapping[int, StepRecord]
    created_at: datetime

    @property
    def id(self) -> str:
        """Step id."""
        return names.step_id(self.job.key, self.index, self.generation)

    @property
    def record(self) -> StepRecord | None:
        """The record of the current generation."""
        return self.records.get(self.generation)

    @property
    def waits(self) -> bool:
        """Whether no worker has it and nothing of it runs: nobody would read an intent until there is room for it.

        A workload that an older generation left is stopped by the next runner, so there must be one.
        """
        if self.task is not None and self.task.state not in WAITING:
            return False
        return self.record is None and all(record.status.terminal for record in self.records.values())

    @property
    def parked(self) -> bool:
        """Whether its task waits for an answer without a worker slot, or has said that it is about to."""
        if self.task is None:
            return False
        parking = self.record is not None and self.record.parked_at is not None and self.task.state == "running"
        return parking or self.task.state == "awaiting_input"

    def generation_in(self, attempt: int) -> int | None:
        """The generation that an earlier attempt shows: the newest that had begun by then."""
        return max((number for number, record in self.records.items() if record.clear_number <= attempt), default=None)

    @property
    def updated_at(self) -> datetime:
        """When anything of it last changed."""
        moments = [self.created_at, self.record.updated_at if self.record else None]
        if self.task and self.status.terminal:
            moments.append(self.task.end_date)
        return max(moment for moment in moments if moment is not None)

    @property
    def status_details(self) -> dict[str, Any]:
        """What the runner published, and a word where Airflow knows more."""
        details = dict(self.record.status_details) if self.record else {}
        if self.record is not None and self.status.terminal and not self.record.status.terminal:
            return details | {"message": self._end_without_a_word}
        between_tries = self.task is not None and self.task.state in ("up_for_retry", "up_for_reschedule")
        if self.status in _PAUSES and (self.record is None or self.record.status is not self.status):
            details["message"] = f"Job is {self.status}"  # the runner will say more
        elif self.status is Status.ACTIVE and between_tries:
            details["message"] = REATTACH_TEXT
        elif self.record is None and (
            self.status is Status.PENDING or (self.status is Status.CREATED and self.index > 0)
        ):
            details["message"] = self._waiting_text
        elif self.status is Status.CANCELLED and self.record is None:
            details["message"] = "Job was cancelled before this step started"
        return details

    @property
    def _end_without_a_word(self) -> str:
        """What to say of an end that came about in Airflow; what its runner said last is over."""
        if self.status is Status.COMPLETED:
            return "The step was marked successful in Airflow"
        return "Job was cancelled" if self.status is Status.CANCELLED else str(self.error_details["message"])

    @property
    def _waiting_text(self) -> str:
        """What a step without a record waits for.

        The job shows it too. After its first step a job is active, also while the next one waits, so that is named.
        """
        is_held = self.task is not None and self.task.state == "running"
        if self.index == 0:
            return "A worker of Airflow is starting the step" if is_held else "Waiting for a worker of Airflow"
        step = f"step '{self.spec.name}'"
        return f"A worker of Airflow is starting {step}" if is_held else f"Waiting for a worker of Airflow for {step}"

    @property
    def error_details(self) -> dict[str, Any]:
        """Why it failed; empty unless it did."""
        if self.status is not Status.ERROR:
            return {}
        if self.record is not None and self.record.status is Status.ERROR:
            return dict(self.record.error_details)
        if self.record is not None and self.record.status is Status.COMPLETED:
            return {"message": "The step was marked failed in Airflow after it had completed"}
        return dict(LOST_ERROR)

    @property
    def tasks(self) -> list[TaskRecord]:
        """Its workloads; those of a step that ended without a word share its end (contract §4)."""
        rows = list(self.record.tasks) if self.record else []
        if not self.job.shows_output:
            rows = [row.model_copy(update={"error_stack": None}) for row in rows]
        if self.status not in (Status.ERROR, Status.CANCELLED):
            return rows
        text = f"Task finalized because job step is {self.status}"
        return [
            row
            if row.status.terminal
            else row.model_copy(
                update={
                    "status": self.status,
                    "status_details": {**row.status_details, "message": text},
                    "error_details": row.error_details or self.error_details,
                }
            )
            for row in rows
        ]
