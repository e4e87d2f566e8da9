"""A run and what is stored about it → the job as the wire shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import (
    INTENT_KEY,
    Intent,
    StepRecord,
    TaskRecord,
    generation_of,
    now,
    step_key,
)
from nemo_airflow_provider.model.spec import JobSpec, StepSpec
from nemo_airflow_provider.model.status import Action, Status, job_status, step_status, visible_steps
from nemo_airflow_provider.service.gateway import RunRow, RunState, TaskRow

#: After a failed task instance's end a workload has its profile's grace and this much more.
_SETTLE = timedelta(seconds=60)

LOST_TEXT = (
    "Airflow ended this step without a word from its worker: the worker was lost more often than the step is "
    "retried, or it could not be started. See the task log in Airflow."
)
REATTACH_TEXT = "The worker of this step was lost or is restarting; the next one adopts the workload"


def wire_time(moment: datetime) -> str:
    """ISO 8601, UTC, microseconds, explicit offset."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class StepView:
    """One step of a job as it stands.

    :param previous_end: when the step before it ended; the step's row dates from then
    """

    job: JobView
    index: int
    spec: StepSpec
    task: TaskRow | None
    status: Status
    generation: int
    record: StepRecord | None
    created_at: datetime

    @property
    def id(self) -> str:
        """Step id."""
        return names.step_id(self.job.key, self.index, self.generation)

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
        between_tries = self.task is not None and self.task.state in ("up_for_retry", "up_for_reschedule")
        if self.status is Status.ACTIVE and between_tries:
            details["message"] = REATTACH_TEXT
        elif self.status is Status.PENDING and self.record is None:
            details["message"] = "Waiting for a worker of Airflow"
        elif self.status is Status.CANCELLED and self.record is None:
            details["message"] = "Job was cancelled before this step started"
        return details

    @property
    def error_details(self) -> dict[str, Any]:
        """Why it failed; empty unless it did."""
        if self.status is not Status.ERROR:
            return {}
        if self.record is not None and self.record.status is Status.ERROR:
            return dict(self.record.error_details)
        if self.record is not None and self.record.status is Status.COMPLETED:
            return {"message": "The step was marked failed in Airflow after it had completed"}
        return {"message": LOST_TEXT, "reason": "LostWorkload"}

    @property
    def tasks(self) -> list[TaskRecord]:
        """Its workloads; those of a step that ended without a word share its end (contract §4)."""
        rows = list(self.record.tasks) if self.record else []
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


@dataclass(frozen=True)
class JobView:
    """One job as it stands, out of one run."""

    run: RunRow
    state: RunState
    spec: JobSpec
    warnings: Sequence[str] = field(default_factory=tuple)

    @cached_property
    def key(self) -> str:
        """Run key."""
        return names.run_key(self.run.dag_id, self.run.run_id, self.run.run_after)

    @property
    def id(self) -> str:
        """Job id."""
        return names.job_id(self.key)

    @property
    def attempt_id(self) -> str:
        """Id of the current attempt."""
        return names.attempt_id(self.key, self.run.clear_number)

    @property
    def name(self) -> str:
        """Job name."""
        name = names.job_name_of(self.run.run_id)
        assert name is not None
        return name

    @property
    def workspace(self) -> str:
        """Workspace name."""
        return names.workspace_of_dag(self.run.dag_id) or ""

    @cached_property
    def intent(self) -> Intent | None:
        """What was asked of the current attempt, by us or by marking it in Airflow."""
        first = names.task_id_of(self.spec.platform_spec.steps[0].name)
        value = self.state.values.get((first, INTENT_KEY))
        if value is not None:
            intent = Intent.model_validate(value)
            if intent.binds(self.run.clear_number):
                return intent
        if self.state.marked_failed_by and self.run.state == "failed":
            return Intent(
                action=Action.CANCEL,
                by=self.state.marked_failed_by,
                at=now(),
                clear_number=self.run.clear_number,
            )
        return None

    @cached_property
    def all_steps(self) -> list[StepView]:
        """A view of every step of the spec, in order."""
        views: list[StepView] = []
        created = self.run.run_after
        for index, spec in enumerate(self.spec.platform_spec.steps):
            view = self._step(index, spec, created)
            views.append(view)
            if view.record and view.record.ended_at:
                created = max(created, view.record.ended_at)
        return views

    def _step(self, index: int, spec: StepSpec, created: datetime) -> StepView:
        task_id = names.task_id_of(spec.name)
        task = self.state.tasks.get(task_id)
        generation = generation_of(task.max_tries) if task else 0
        value = self.state.values.get((task_id, step_key(generation)))
        record = None if value is None else StepRecord.model_validate(value)
        status = step_status(
            task.state if task else None,
            self.intent.action if self.intent else None,
            record.status if record else None,
            over=_is_over(task),
        )
        return StepView(self, index, spec, task, status, generation, record, created)

    @cached_property
    def status(self) -> Status:
        """Job status."""
        action = self.intent.action if self.intent else None
        return job_status(self.run.state, [step.status for step in self.all_steps], intent=action)

    @property
    def steps(self) -> list[StepView]:
        """The steps that have a row: begun, or next."""
        return self.all_steps[: visible_steps([step.status for step in self.all_steps])]

    @property
    def updated_at(self) -> datetime:
        """When anything of it last changed."""
        moments = [self.run.run_after, self.run.end_date, *(step.updated_at for step in self.steps)]
        return max(moment for moment in moments if moment is not None)

    @property
    def status_details(self) -> dict[str, Any]:
        """Merged from the steps in order (contract §4: task details go up into the job's)."""
        details: dict[str, Any] = {"warnings": list(self.warnings)} if self.warnings else {}
        for step in self.steps:
            # A step that never started says nothing about the job (contract §6.1).
            if step.record is None or step.tasks or step.status is Status.CANCELLED:
                details.update(step.status_details)
        if self.intent and self.intent.action is Action.CANCEL and self.intent.by:
            details["cancelled_by"] = self.intent.by
        return details

    @property
    def error_details(self) -> dict[str, Any] | None:
        """Copied from the step in error."""
        if self.status is not Status.ERROR:
            return None
        failed = next((step for step in self.all_steps if step.status is Status.ERROR), None)
        details = failed.error_details if failed else {"message": LOST_TEXT, "reason": "LostWorkload"}
        return {**details, "step": failed.spec.name} if failed else details


def _is_over(task: TaskRow | None) -> bool:
    return task is not None and task.end_date is not None and now() - task.end_date > _SETTLE


def view_of(run: RunRow, state: RunState) -> JobView | None:
    """The job that a run is, or None when its name or conf is no valid job."""
    if names.job_name_of(run.run_id) is None or names.workspace_of_dag(run.dag_id) is None:
        return None
    conf: Mapping[str, Any] = run.conf or {}
    try:
        spec = JobSpec.model_validate(conf)
    except ValidationError:
        return None
    warnings = conf.get("warnings")
    return JobView(run, state, spec, tuple(map(str, warnings)) if isinstance(warnings, list) else ())
