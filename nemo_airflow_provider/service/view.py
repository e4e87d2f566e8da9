"""A run and what is stored about it → the job as the wire shows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.record import (
    INTENT_KEY,
    Intent,
    StepRecord,
    generation_of,
    generation_of_key,
    parse_intent,
    parse_record,
)
from nemo_airflow_provider.model.spec import JobSpec, StepSpec
from nemo_airflow_provider.model.status import Action, Status, job_status, step_status, visible_steps
from nemo_airflow_provider.model.verdict import judged, parse_verdict, verdict_key
from nemo_airflow_provider.service.gateway import RunRow, RunState, TaskRow
from nemo_airflow_provider.service.stepview import LOST_ERROR, StepView

#: After its task instance's end a workload has its profile's grace and this much more.
_SETTLE_SECONDS = 60.0


def wire_time(moment: datetime) -> str:
    """ISO 8601, UTC, microseconds, explicit offset."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class JobView:
    """One job as it stands, out of one run.

    :param seen_at: the moment it is looked at
    :param shows_output: whether who looks may read the job's log, and so the ends of it that its tasks carry
    """

    run: RunRow
    state: RunState
    spec: JobSpec
    seen_at: datetime
    warnings: Sequence[str] = field(default_factory=tuple)
    shows_output: bool = False

    @cached_property
    def key(self) -> str:
        """Run key."""
        return self.run.key

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
        name = self.run.job_name
        assert name is not None
        return name

    @property
    def workspace(self) -> str:
        """Workspace name."""
        return self.run.workspace or ""

    @cached_property
    def intent(self) -> Intent | None:
        """What was asked of the current attempt, by us or by marking it in Airflow."""
        first = names.task_id_of(self.spec.platform_spec.steps[0].name)
        intent = parse_intent(self.state.values.get((first, INTENT_KEY)))
        if intent is not None and not intent.binds(self.run.clear_number):
            intent = None
        cancelled = intent is not None and intent.action is Action.CANCEL
        if self.state.marked_failed_by and self.run.state == "failed" and not cancelled:
            return Intent(
                action=Action.CANCEL,
                by=self.state.marked_failed_by,
                at=self.seen_at,
                clear_number=self.run.clear_number,
            )
        if intent is not None and intent.answered(self._resumed_at):
            return intent.model_copy(update={"action": Action.RESUME})
        return intent

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
        records = self._records.get(task_id, {})
        record = records.get(generation)
        status = step_status(
            task.state if task else None,
            self.intent.action if self.intent else None,
            record.status if record else None,
            over=self._is_over(task, record),
        )
        return StepView(self, index, spec, task, status, generation, records, created)

    @cached_property
    def _records(self) -> dict[str, dict[int, StepRecord]]:
        """Step records by task id and generation, out of one walk over the values of all steps; where a runner went
        without a word, the sweep's verdict is in them."""
        found: dict[str, dict[int, StepRecord]] = {}
        for (task_id, key), value in self.state.values.items():
            generation = generation_of_key(key)
            record = None if generation is None else parse_record(value)
            if generation is None or record is None:
                continue
            verdict = parse_verdict(self.state.values.get((task_id, verdict_key(generation))))
            found.setdefault(task_id, {})[generation] = judged(record, verdict) if verdict else record
        return found

    @property
    def _resumed_at(self) -> datetime | None:
        """Up to when pauses were answered on Airflow's own pages."""
        moments = [record.resumed_at for records in self._records.values() for record in records.values()]
        return max((moment for moment in moments if moment is not None), default=None)

    def _is_over(self, task: TaskRow | None, record: StepRecord | None) -> bool:
        """Whether a workload has had all its time to end after Airflow had ended its task instance."""
        if task is None or record is None:
            return False
        if record.rests:
            return True
        # A task instance that Airflow skips between two tries keeps the end of the try before.
        ends = [moment for moment in (task.end_date, self.run.end_date) if moment is not None]
        return bool(ends) and (self.seen_at - max(ends)).total_seconds() > record.grace_seconds + _SETTLE_SECONDS

    @cached_property
    def status(self) -> Status:
        """Job status."""
        action = self.intent.action if self.intent else None
        return job_status(self.run.state, [step.status for step in self.all_steps], intent=action)

    @property
    def waits(self) -> bool:
        """Whether every step either succeeded, in Airflow's eyes too, or waits for a worker."""
        succeeded = [step.task is not None and step.task.state == "success" for step in self.all_steps]
        return all(over or step.waits for over, step in zip(succeeded, self.all_steps, strict=True))

    @property
    def parked_step(self) -> StepView | None:
        """The step whose task has given its worker slot back, or is about to."""
        return next((step for step in self.all_steps if step.parked), None)

    @property
    def step_at_hand(self) -> StepView | None:
        """The first step that has not completed."""
        return next((step for step in self.all_steps if step.status is not Status.COMPLETED), None)

    @property
    def changes_step(self) -> bool:
        """Whether a step has completed and Airflow does not know yet, so that the next one is still to come."""
        return any(
            step.record is not None
            and step.record.status is Status.COMPLETED
            and step.task is not None
            and step.task.state == "running"
            for step in self.all_steps[:-1]
        )

    @property
    def holds_output(self) -> bool:
        """Whether a task carries the end of its output."""
        return any(task.error_stack for step in self.all_steps if step.record for task in step.record.tasks)

    @property
    def steps(self) -> list[StepView]:
        """The steps that have a row: begun, or next."""
        return self.all_steps[: visible_steps([step.status for step in self.all_steps])]

    @property
    def updated_at(self) -> datetime:
        """When anything of it last changed."""
        moments = [self.run.run_after, self.run.end_date, *(step.updated_at for step in self.steps)]
        if self.intent and not self.status.terminal:
            moments.append(self.intent.at)
        return max(moment for moment in moments if moment is not None)

    @property
    def status_details(self) -> dict[str, Any]:
        """Merged from the steps in order (contract §4: task details go up into the job's)."""
        details: dict[str, Any] = {"warnings": list(self.warnings)} if self.warnings else {}
        for step in self.steps:
            # A step that never started says nothing about the job (contract §6.1).
            if step.record is None or step.tasks or step.status in (Status.CANCELLED, Status.PAUSED):
                details.update(step.status_details)
        if not self.status.terminal:
            details.pop("exit_code", None)  # of a step before the one at work
        if self.intent and self.intent.action is Action.CANCEL and self.intent.by:
            details["cancelled_by"] = self.intent.by
        return details

    @property
    def error_details(self) -> dict[str, Any] | None:
        """Copied from the step in error."""
        if self.status is not Status.ERROR:
            return None
        failed = next((step for step in self.all_steps if step.status is Status.ERROR), None)
        details = failed.error_details if failed else LOST_ERROR
        return {**details, "step": failed.spec.name} if failed else details


def spec_of(run: RunRow) -> JobSpec | None:
    """The job that a run with conf carries, or None when its name or conf is no valid job of its DAG."""
    if run.job_name is None or run.workspace is None or flaw_in(run.conf) is not None:
        return None
    try:
        spec = JobSpec.model_validate(run.conf or {})
    except ValidationError:
        return None
    if run.authored_in is None and names.shape_dag_id(run.workspace, spec.platform_spec.shape()) != run.dag_id:
        return None
    return spec


def view_of(run: RunRow, state: RunState, seen_at: datetime) -> JobView | None:
    """The view of the job that a run is; None: see `spec_of`."""
    spec = spec_of(run)
    if spec is None:
        return None
    warnings = (run.conf or {}).get("warnings")
    return JobView(run, state, spec, seen_at, tuple(map(str, warnings)) if isinstance(warnings, list) else ())
