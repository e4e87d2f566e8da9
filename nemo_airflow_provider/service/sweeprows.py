"""What the sweep reads and removes of Airflow's tables. A run is removed only once it has been over for a minute: the
scheduler process ends when a run that it looks at is gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from airflow.api.common.delete_dag import delete_dag
from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.utils.types import DagRunType
from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.orm import Session, aliased

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import INTENT_KEY
from nemo_airflow_provider.model.shape import is_shape
from nemo_airflow_provider.model.status import RUN_OVER
from nemo_airflow_provider.service.database import COLUMNS, DELETED, session_scope, to_row
from nemo_airflow_provider.service.gateway import RunRow

INSTALLATION_VARIABLE = "nemo.installation"

#: Runs removed by one transaction.
_MOST_RUNS = 50
_OVER = timedelta(seconds=60)

#: Runs read by one query.
_CHUNK = 400


def runs_with(keys: Collection[str]) -> dict[str, RunRow]:
    """Runs by run key, of whatever DAG, without conf; those that Airflow does not have are left out."""
    moments = sorted({moment for key in keys if (moment := _made_at(key)) is not None})
    found: dict[str, RunRow] = {}
    with session_scope() as session:
        for first in range(0, len(moments), _CHUNK):
            made = DagRun.run_after.in_(moments[first : first + _CHUNK])
            for row in session.execute(select(*COLUMNS, DELETED).where(made)):
                run = to_row(row[:-1], None, deleted=bool(row[-1]))
                found[run.key] = run
    return {key: found[key] for key in keys if key in found}


def _made_at(key: str) -> datetime | None:
    try:
        return names.run_after_of(key)
    except ValueError:
        return None


def unfinished_with_intent() -> list[RunRow]:
    """Runs that are not over and of which something was asked, without conf."""
    asked = exists().where(TaskStateStoreModel.dag_run_id == DagRun.id, TaskStateStoreModel.key == INTENT_KEY)
    statement = select(*COLUMNS, DELETED).where(DagRun._state.not_in(RUN_OVER), asked)
    with session_scope() as session:
        return [to_row(row[:-1], None, deleted=bool(row[-1])) for row in session.execute(statement)]


def mark_failed(row: RunRow) -> bool:
    """Mark a run failed, as a person does on Airflow's pages; False when its DAG cannot be had."""
    with session_scope() as session:
        dag = DBDagBag().get_latest_version_of_dag(row.dag_id, session=session)
        if dag is None:
            return False
        set_dag_run_state_to_failed(dag=dag, run_id=row.run_id, commit=True, session=session)
    return True


# --- removing runs ----------------------------------------------------------------------------------


def remove_deleted_runs(moment: datetime) -> int:
    """Remove the rows of jobs that were deleted; how many.

    A schedule's newest stays until there is a newer: the mark hides it."""
    return _remove_runs(moment, DELETED)


def remove_old_runs(dag_id: str, moment: datetime, keep: int) -> int:
    """Remove all runs of a DAG but the newest, and its entries of Airflow's audit log of the same age; how many."""
    newest = select(DagRun.id).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(keep).subquery()
    removed = _remove_runs(moment, DagRun.dag_id == dag_id, DagRun.id.not_in(select(newest.c.id)))
    with session_scope() as session:
        oldest = session.scalar(select(func.min(DagRun.run_after)).where(DagRun.dag_id == dag_id))
        if oldest is not None:
            session.execute(delete(Log).where(Log.dag_id == dag_id, Log.dttm < oldest))
    return removed


def _remove_runs(moment: datetime, *conditions: ColumnElement[bool]) -> int:
    removable = (DagRun._state.in_(RUN_OVER), DagRun.end_date < moment - _OVER, ~_is_a_schedules_newest())
    # Whoever looks at a run to change it has it locked.
    statement = (
        select(DagRun).where(*conditions, *removable).limit(_MOST_RUNS).with_for_update(skip_locked=True, of=DagRun)
    )
    with session_scope() as session:
        runs = session.scalars(statement).all()
        for run in runs:
            session.delete(run)
        return len(runs)


def _is_a_schedules_newest() -> ColumnElement[bool]:
    """Whether Airflow may find the next run of a schedule after this one, at each look at the DAG's file
    (`DagModel.calculate_dagrun_date_fields`): without it, Airflow runs the same date again.

    Runs of partitions have an order of their own; where it leaves doubts, a run counts as the newest.
    """
    newer = aliased(DagRun)
    later = newer.logical_date > DagRun.logical_date
    later_partition = newer.partition_key.is_not(None) & (
        (newer.partition_date > DagRun.partition_date)
        | (DagRun.partition_date.is_(None) & newer.partition_date.is_not(None))
        | (DagRun.partition_date.is_(None) & newer.partition_date.is_(None) & (newer.run_after > DagRun.run_after))
    )
    kinds = (DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB)

    def passed(by: ColumnElement[bool]) -> ColumnElement[bool]:
        return exists().where(newer.dag_id == DagRun.dag_id, newer.run_type.in_(kinds), by)

    date = DagRun.logical_date.is_(None) | passed(later)
    partition = DagRun.partition_key.is_(None) | passed(later_partition)
    newest: ColumnElement[bool] = DagRun.run_type.in_(kinds) & ~(date & partition)
    return newest


# --- shapes -----------------------------------------------------------------------------------------


def unused_shapes(since: datetime) -> list[str]:
    """DAG ids of stored shapes that were there before `since` and have had no job at work since then."""
    stored = Variable.key.startswith(names.SHAPE_VARIABLE_PREFIX, autoescape=True)
    with session_scope() as session:
        shapes = [
            key[len(names.SHAPE_VARIABLE_PREFIX) :] for key in session.scalars(select(Variable.key).where(stored))
        ]
        return [dag_id for dag_id in shapes if _is_unused(session, dag_id, since)]


def _is_unused(session: Session, dag_id: str, since: datetime) -> bool:
    made = session.scalar(select(func.min(DagVersion.created_at)).where(DagVersion.dag_id == dag_id))
    if made is None or made >= since:
        return False
    used = DagRun._state.not_in(RUN_OVER) | (DagRun.run_after >= since) | (DagRun.end_date >= since)
    return not session.scalar(select(exists().where(DagRun.dag_id == dag_id, used)))


def retire_shape(dag_id: str, since: datetime) -> bool:
    """Remove a shape that is still unused. Call it under the shape's lock.

    Jobs of it that nobody deleted stay to be read: their DAG only goes stale. It goes with the last of them.
    """
    with session_scope() as session:
        if not _is_unused(session, dag_id, since):
            return False
        session.execute(delete(Variable).where(Variable.key == names.shape_variable(dag_id)))
    return True


def remove_stale_dag(dag_id: str) -> bool:
    """Remove a DAG whose shape is retired, once it has no runs. Call it under the shape's lock."""
    with session_scope() as session:
        if dag_id not in _stale_dags(session, [dag_id]):
            return False
        delete_dag(dag_id, session=session)
    return True


def stale_dags() -> list[str]:
    """DAGs of retired shapes without a run."""
    with session_scope() as session:
        ours = DagModel.dag_id.startswith(names.DAG_PREFIX, autoescape=True)
        found = session.scalars(select(DagModel.dag_id).where(ours, DagModel.is_stale)).all()
        return _stale_dags(session, found)


def _stale_dags(session: Session, dag_ids: Iterable[str]) -> list[str]:
    return [dag_id for dag_id in dag_ids if is_shape(dag_id) and _is_left(session, dag_id)]


def _is_left(session: Session, dag_id: str) -> bool:
    stored = exists().where(Variable.key == names.shape_variable(dag_id))
    stale = exists().where(DagModel.dag_id == dag_id, DagModel.is_stale)
    return bool(session.scalar(select(stale & ~stored & ~exists().where(DagRun.dag_id == dag_id))))


# --- who asks ---------------------------------------------------------------------------------------


def stored_installation() -> str | None:
    """The installation id that this database says it belongs to."""
    with session_scope() as session:
        row = session.scalar(select(Variable).where(Variable.key == INSTALLATION_VARIABLE))
        return None if row is None else row.get_val()


def store_installation(installation: str) -> None:
    """Note which installation this database belongs to."""
    with session_scope() as session:
        session.add(
            Variable(
                key=INSTALLATION_VARIABLE,
                val=installation,
                description="Ties this database to its [nemo] storage; do not change it.",
            )
        )


def running_value(dag_id: str, run_id: str, task_id: str, key: str) -> str | None:
    """A state-store value, as JSON, of a task instance that runs now."""
    statement = (
        select(TaskStateStoreModel.value)
        .join(
            TaskInstance,
            (TaskInstance.dag_id == TaskStateStoreModel.dag_id)
            & (TaskInstance.run_id == TaskStateStoreModel.run_id)
            & (TaskInstance.task_id == TaskStateStoreModel.task_id)
            & (TaskInstance.map_index == TaskStateStoreModel.map_index),
        )
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.task_id == task_id,
            TaskInstance.state == "running",
            TaskStateStoreModel.key == key,
        )
    )
    with session_scope() as session:
        return session.scalar(statement)
