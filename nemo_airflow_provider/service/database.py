"""The few columns of Airflow's tables that we read, and the state-store values we write: the only ORM module."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.state.metastore import MetastoreBackend, TaskScope
from airflow.utils.session import create_session
from sqlalchemy import Select, exists, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import DELETED_KEY
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.gateway import RunRow, RunState, TaskRow

#: Audit-log events by which a person ends a run or a step in Airflow.
MARKING_EVENTS = (
    "patch_dag_run",
    "bulk_dag_runs",
    "patch_task_instance",
    "bulk_task_instances",
    "patch_task_group_instances",
)

_DELETED = exists().where(TaskStateStoreModel.dag_run_id == DagRun.id, TaskStateStoreModel.key == DELETED_KEY)
_COLUMNS = (
    DagRun.id,
    DagRun.dag_id,
    DagRun.run_id,
    DagRun._state,
    DagRun.run_after,
    DagRun.clear_number,
    DagRun.start_date,
    DagRun.end_date,
    DagRun.updated_at,
    DagRun.triggering_user_name,
)


@contextmanager
def session_scope() -> Iterator[Session]:
    """A session of our own: one scoped to the thread would be committed by whoever shares it."""
    with create_session(scoped=False) as session:
        yield session


def _in_workspace(statement: Select[Any], workspace: str) -> Select[Any]:
    return statement.where(DagRun.dag_id.startswith(f"{names.DAG_PREFIX}{workspace}.", autoescape=True))


def _row(values: Sequence[Any], conf: Mapping[str, Any] | None, deleted: bool) -> RunRow:
    return replace(RunRow(*values), conf=conf, deleted=deleted)


def runs_where(workspace: str, narrow: Callable[[Select[Any]], Select[Any]]) -> list[RunRow]:
    """Runs of a workspace with conf and deletion mark, newest first."""
    statement = _in_workspace(select(*_COLUMNS, DagRun.conf, _DELETED), workspace)
    with session_scope() as session:
        rows = session.execute(narrow(statement).order_by(DagRun.id.desc())).all()
    return [_row(row[:-2], row[-2], bool(row[-1])) for row in rows]


def runs_named(workspace: str, run_id: str) -> list[RunRow]:
    """Runs of one name, in any shape and ordinal."""
    again = DagRun.run_id.startswith(f"{run_id}~", autoescape=True)
    return runs_where(workspace, lambda statement: statement.where(or_(DagRun.run_id == run_id, again)))


def runs_made_at(workspace: str, run_after: datetime) -> list[RunRow]:
    """Runs of one microsecond: the rest of a run key decides among them."""
    return runs_where(workspace, lambda statement: statement.where(DagRun.run_after == run_after))


def runs_of(workspace: str) -> list[RunRow]:
    """Runs that are jobs and not deleted, newest first, with the parts of conf that lists are filtered by."""
    source, project = DagRun.conf["source"].as_string(), DagRun.conf["project"].as_string()
    statement = _in_workspace(select(*_COLUMNS, source, project), workspace).where(~_DELETED, source.is_not(None))
    with session_scope() as session:
        rows = session.execute(statement.order_by(DagRun.run_after.desc(), DagRun.id.desc())).all()
    return [_row(row[:-2], {"source": row[-2], "project": row[-1]}, False) for row in rows]


def with_conf(rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs, read again with their whole conf."""
    with session_scope() as session:
        statement = select(*_COLUMNS, DagRun.conf).where(DagRun.id.in_([row.pk for row in rows]))
        found = {row[0]: _row(row[:-1], row[-1], False) for row in session.execute(statement)}
    return [found[row.pk] for row in rows if row.pk in found]


def states_of(rows: Sequence[RunRow]) -> dict[int, RunState]:
    """Task instances, state-store values and marks of runs."""
    if not rows:
        return {}
    by_run = {(row.dag_id, row.run_id): row.pk for row in rows}
    tasks: dict[int, dict[str, TaskRow]] = defaultdict(dict)
    values: dict[int, dict[tuple[str, str], Any]] = defaultdict(dict)
    with session_scope() as session:
        statement = select(
            TaskInstance.dag_id,
            TaskInstance.run_id,
            TaskInstance.task_id,
            TaskInstance.state,
            TaskInstance.max_tries,
            TaskInstance.start_date,
            TaskInstance.end_date,
            TaskInstance.updated_at,
        ).where(
            TaskInstance.dag_id.in_({row.dag_id for row in rows}),
            TaskInstance.run_id.in_({row.run_id for row in rows}),
        )
        for dag_id, run_id, *columns in session.execute(statement):
            if (pk := by_run.get((dag_id, run_id))) is not None:
                tasks[pk][columns[0]] = TaskRow(*columns)
        stored = select(
            TaskStateStoreModel.dag_run_id,
            TaskStateStoreModel.task_id,
            TaskStateStoreModel.key,
            TaskStateStoreModel.value,
        ).where(TaskStateStoreModel.dag_run_id.in_([row.pk for row in rows]))
        for pk, task_id, key, value in session.execute(stored):
            values[pk][task_id, key] = json.loads(value)
        marks = {row.pk: _mark(session, row) for row in rows if row.state == "failed" and _is_silent(values[row.pk])}
    return {row.pk: RunState(tasks[row.pk], values[row.pk], marks.get(row.pk)) for row in rows}


def _is_silent(values: Mapping[tuple[str, str], Any]) -> bool:
    """Whether no step of a failed run says why: somebody may have marked it."""
    ends = (Status.ERROR, Status.CANCELLED)
    return not any(isinstance(value, dict) and value.get("status") in ends for value in values.values())


def _mark(session: Session, row: RunRow) -> str | None:
    """Who marked a failed run, or a step of it, since its attempt began."""
    statement = (
        select(Log.owner)
        .where(
            Log.dag_id == row.dag_id,
            Log.run_id == row.run_id,
            Log.event.in_(MARKING_EVENTS),
            Log.dttm >= (row.start_date or row.run_after),
        )
        .order_by(Log.id.desc())
        .limit(1)
    )
    return session.scalar(statement)


def write_value(row: RunRow, task_ids: Collection[str], key: str, value: Any) -> None:
    """Write one state-store value to task instances of a run."""
    backend = MetastoreBackend()
    with session_scope() as session:
        for task_id in task_ids:
            scope = TaskScope(dag_id=row.dag_id, run_id=row.run_id, task_id=task_id, map_index=-1)
            backend.set(scope, key, json.dumps(value), expires_at=None, session=session)


# --- shapes -----------------------------------------------------------------------------------------


def shape_value(dag_id: str) -> str | None:
    """The stored shape of a DAG id."""
    with session_scope() as session:
        row = session.scalar(select(Variable).where(Variable.key == names.shape_variable(dag_id)))
        return None if row is None else row.get_val()


def shape_count() -> int:
    """How many shapes are stored."""
    with session_scope() as session:
        stored = Variable.key.startswith(names.SHAPE_VARIABLE_PREFIX, autoescape=True)
        return int(session.scalar(select(func.count()).select_from(Variable).where(stored)) or 0)


def store_shape(dag_id: str, value: str) -> None:
    """Add a shape; one that is there stays as it is."""
    try:
        with session_scope() as session:
            session.add(Variable(key=names.shape_variable(dag_id), val=value, description="NeMo job shape"))
    except IntegrityError:
        # Another request stored the same immutable shape a moment ago.
        return


def dag_is_ready(dag_id: str) -> bool:
    """Whether Airflow can make a run of the DAG."""
    with session_scope() as session:
        serialized = exists().where(SerializedDagModel.dag_id == dag_id)
        statement = select(DagModel.dag_id).where(DagModel.dag_id == dag_id, ~DagModel.is_stale, serialized)
        return session.scalar(statement) is not None


def request_parse(anchor_dag_id: str) -> bool:
    """Ask the dag-processor to parse our file next; False when it has never parsed it."""
    with session_scope() as session:
        place = session.execute(
            select(DagModel.bundle_name, DagModel.relative_fileloc).where(DagModel.dag_id == anchor_dag_id)
        ).first()
    if place is None or place[1] is None:
        return False
    try:
        with session_scope() as session:
            session.add(DagPriorityParsingRequest(bundle_name=place[0], relative_fileloc=place[1]))
    except IntegrityError:
        # A request for the same file waits already.
        pass
    return True
