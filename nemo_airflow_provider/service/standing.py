"""What Airflow says about the jobs and workloads that an engine holds, and how steps without a runner ended: pure.

The one question is whether a try of Airflow has a workload, or a next one will adopt it. While that may be, nothing
of it is touched, whatever it looks like from outside.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from nemo_airflow_provider.errors import LostWorkload
from nemo_airflow_provider.model.secret import secret_items
from nemo_airflow_provider.model.status import RUN_OVER, Action, Status, step_status
from nemo_airflow_provider.model.verdict import Verdict
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.stepview import LOST_TEXT, StepView
from nemo_airflow_provider.service.view import JobView
from nemo_airflow_provider.sweep.office import AskedJob, AskedWorkload, Ending, Hold, JobStanding, WorkloadStanding

#: After Airflow has ended a task instance, its runner learns of it (5 s) and stores what is said in the next 4 s.
RUNNER_SECONDS = 15.0
#: A cancel that is so much older than the grace it gave has nobody who obeys it.
CANCEL_SECONDS = 300.0
#: Grace of a step whose record does not say one.
_GRACE_SECONDS = 30.0

#: States after which Airflow starts no next try by itself.
_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def standing_of(asked: AskedJob, row: RunRow | None, view: JobView | None, seen_at: datetime) -> JobStanding:
    """What becomes of a job.

    :param row: its run; None when Airflow has none
    :param view: None for a run that the jobs API does not show; of what such a DAG runs, only its end is known
    """
    if row is None or (row.deleted and row.state in RUN_OVER):
        gone = WorkloadStanding(hold=Hold.GONE)
        return JobStanding(hold=Hold.GONE, workloads=[gone] * len(asked.workloads))
    over = row.end_date if row.state in RUN_OVER else None
    hold, over_seconds = _held(over, seen_at)
    if view is None:
        held = WorkloadStanding(hold=hold, over_seconds=over_seconds)
        return JobStanding(hold=hold, over_seconds=over_seconds, workloads=[held] * len(asked.workloads))
    return JobStanding(
        hold=hold,
        over_seconds=over_seconds,
        profiles=[_profile(step) for step in view.all_steps],
        workloads=[_workload(each, view) for each in asked.workloads],
    )


def _workload(asked: AskedWorkload, view: JobView) -> WorkloadStanding:
    step = next((step for step in view.all_steps if step.spec.name == asked.step), None)
    if step is None:
        return WorkloadStanding(hold=Hold.LIVE)
    hold, over_seconds = _held(_over_since(step, asked), view.seen_at)
    record = step.records.get(asked.generation)
    handle = record.handle if record else None
    is_last = handle is None or handle.start == asked.start
    return WorkloadStanding(
        hold=hold,
        over_seconds=over_seconds,
        # An earlier start has had its output stored, or given up, by the runner that began the next one.
        settled=record is None or record.status.terminal or not is_last,
        engine=handle.engine if handle else "",
        step_index=step.index,
        grace_seconds=record.grace_seconds if record else 0,
        profile=_profile(step),
        secrets=sorted({item.secret.variable for item in secret_items(step.spec, view.workspace) if item.secret}),
    )


def _over_since(step: StepView, asked: AskedWorkload) -> datetime | None:
    """Since when nobody needs a workload; None while somebody may."""
    record = step.records.get(asked.generation)
    if is_superseded(step, asked.generation, asked.start):
        return (record.ended_at or record.updated_at) if record else step.job.run.run_after
    task = step.task
    if task is None or task.state not in _ENDED:
        return None
    ended = (record.ended_at if record else None) or task.end_date or step.job.run.end_date or task.updated_at
    if ended is None or (record is not None and record.status.terminal):
        return ended
    # Its runner may be at its last words.
    return ended if step.job.seen_at - ended > timedelta(seconds=RUNNER_SECONDS) else None


def is_superseded(step: StepView, generation: int, start: int) -> bool:
    """Whether a newer execution of the step has begun: it stops older ones, and nobody adopts them any more.

    Before its record is there nothing can be said: a step that was cleared may still wait for a worker.
    """
    record = step.records.get(generation)
    handle = record.handle if record else None
    return any(newer > generation for newer in step.records) or (handle is not None and start < handle.start)


def _held(over: datetime | None, seen_at: datetime) -> tuple[Hold, float]:
    """What is needed or not, and for how long it has not been."""
    if over is None:
        return Hold.LIVE, 0.0
    return Hold.OVER, max(0.0, (seen_at - over).total_seconds())


def _profile(step: StepView) -> str:
    return f"{step.spec.executor.provider}/{step.spec.executor.profile}"


def verdict_on(step: StepView, ending: Ending) -> Verdict | None:
    """How a step ended that no runner told of; None when that is known, or a try may still tell.

    :param ending: of its workload; all of its output is stored
    """
    asked = AskedWorkload(step=ending.step, generation=ending.generation, start=ending.start)
    record = step.records.get(ending.generation)
    if record is None or record.status.terminal or _over_since(step, asked) is None:
        return None
    handle = record.handle
    if handle is not None and handle.start != ending.start:
        return None
    details = dict(ending.details)
    if ending.exit_code is not None:
        details["exit_code"] = ending.exit_code
    status, message, error = _judge(step, ending)
    return Verdict(
        status=status,
        status_details={**details, "message": message},
        error_details={"message": message, **error} if status is Status.ERROR else {},
        at=step.job.seen_at,
    )


def _judge(step: StepView, ending: Ending) -> tuple[Status, str, dict[str, str]]:
    """Status and message, and what else an error says."""
    how = f"({ending.message})" if ending.message else "without an exit code"
    if ending.exit_code is not None:
        how = f"with exit code {ending.exit_code}"
    if is_superseded(step, ending.generation, ending.start):
        return Status.CANCELLED, f"The step was run again; this execution ended {how}", {}
    record = step.records[ending.generation]
    intent = step.job.intent
    status = step_status(
        step.task.state if step.task else None, intent.action if intent else None, record.status, over=True
    )
    if status is Status.CANCELLED:
        return status, f"Job was cancelled {how}", {}
    if status is Status.COMPLETED:
        return status, f"The step was marked successful in Airflow; its workload ended {how}", {}
    if record.handle is not None and record.handle.expired:
        return Status.ERROR, record.handle.expired, {}
    return Status.ERROR, f"{LOST_TEXT} The workload ended {how}.", {"reason": LostWorkload.code}


def is_long_cancelled(view: JobView) -> bool:
    """Whether a cancel has been waited for so long that nobody will obey it any more."""
    intent = view.intent
    if intent is None or intent.action is not Action.CANCEL or view.run.state in RUN_OVER:
        return False
    graces = [step.record.grace_seconds for step in view.all_steps if step.record and step.record.grace_seconds]
    patience = max(graces, default=_GRACE_SECONDS) + CANCEL_SECONDS
    return (view.seen_at - intent.at).total_seconds() > patience
