"""The few columns of Airflow's tables that we read, and the state-store values we write: the only ORM module."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.state.metastore import MetastoreBackend, TaskScope
from airflow.utils.session import create_session
from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import DELETED_KEY, STEP_KEY_PREFIX
from nemo_airflow_provider.service import authored, outage
from nemo_airflow_provider.service.audit import is_explained, who_marked
from nemo_airflow_provider.service.gateway import RunRow, RunState, TaskRow
from nemo_airflow_provider.service.jsontext import json_text

#: Runs read by one query: two ids of each stay below the 999 parameters of an older SQLite.
_CHUNK = 400

DELETED = exists().where(TaskStateStoreModel.dag_run_id == DagRun.id, TaskStateStoreModel.key == DELETED_KEY)
_RECORDED = exists().where(
    TaskStateStoreModel.dag_run_id == DagRun.id, TaskStateStoreModel.key.startswith(STEP_KEY_PREFIX)
)
COLUMNS = (
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
    """A session of our own: one scoped to the thread would be committed by whoever shares it.

    :raises DatabaseAway: the database is busy or away
    """
    with outage.told(), create_session(scoped=False) as session:
        yield session


def _of_shapes(workspace: str) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = DagRun.dag_id.startswith(f"{names.DAG_PREFIX}{workspace}.", autoescape=True)
    return condition


def _authored(workspace: str) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = DagRun.dag_id.in_(authored.dags_of(workspace))
    return condition


def to_row(
    values: Sequence[Any], conf: Mapping[str, Any] | None, *, deleted: bool = False, recorded: bool = False
) -> RunRow:
    """A run out of the values of `COLUMNS`."""
    return replace(RunRow(*values), conf=conf, deleted=deleted, recorded=recorded)


def runs_where(workspace: str, condition: ColumnElement[bool]) -> list[RunRow]:
    """Runs of a workspace with conf and deletion mark, newest first."""
    statement = select(*COLUMNS, DagRun.conf, DELETED, authored.VERSION).where(
        or_(_of_shapes(workspace), _authored(workspace)), condition
    )
    with session_scope() as session:
        found = session.execute(statement.order_by(DagRun.id.desc())).all()
        rows = [(to_row(row[:-3], row[-3], deleted=bool(row[-2])), row[-1]) for row in found]
        return authored.with_documents(session, rows, workspace)


def runs_named(workspace: str, name: str) -> list[RunRow]:
    """Runs of one job name, in any DAG and ordinal."""
    run_id = names.run_id_of(name)
    again = DagRun.run_id.startswith(f"{run_id}~", autoescape=True)
    with session_scope() as session:
        others = authored.runs_named(session, workspace, name)
    rows = runs_where(workspace, or_(DagRun.run_id == run_id, again, DagRun.id.in_(others)))
    # SQLite's LIKE takes the capitals of an encoded name for small letters.
    return [row for row in rows if row.job_name == name]


def runs_made_at(workspace: str, run_after: datetime) -> list[RunRow]:
    """Runs of one microsecond: the rest of a run key decides among them."""
    return runs_where(workspace, DagRun.run_after == run_after)


def runs_of(workspace: str) -> list[RunRow]:
    """Runs that are jobs and not deleted, newest first, with the parts of conf that lists are filtered by."""
    with session_scope() as session:
        source, project = (json_text(session, DagRun.conf, key) for key in ("source", "project"))
        statement = select(*COLUMNS, source, project, _RECORDED, authored.VERSION).where(
            ~DELETED, or_(and_(_of_shapes(workspace), source.is_not(None)), _authored(workspace))
        )
        found = session.execute(statement.order_by(DagRun.run_after.desc(), DagRun.id.desc())).all()
        rows = [
            (to_row(row[:-4], {"source": row[-4], "project": row[-3]}, recorded=bool(row[-2])), row[-1])
            for row in found
        ]
        return authored.with_documents(session, rows, workspace)


def _chunks(rows: Sequence[RunRow]) -> Iterator[Sequence[RunRow]]:
    return (rows[first : first + _CHUNK] for first in range(0, len(rows), _CHUNK))


def with_conf(rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs, read again with their whole conf."""
    found: dict[int, RunRow] = {}
    with session_scope() as session:
        for chunk in _chunks(rows):
            statement = select(*COLUMNS, DagRun.conf, authored.VERSION).where(DagRun.id.in_([row.pk for row in chunk]))
            read = [(to_row(row[:-2], row[-2]), row[-1]) for row in session.execute(statement)]
            found |= {row.pk: row for row in authored.with_documents(session, read)}
    return [found[row.pk] for row in rows if row.pk in found]


def states_of(rows: Sequence[RunRow]) -> dict[int, RunState]:
    """Task instances, state-store values and marks of runs."""
    states: dict[int, RunState] = {}
    with session_scope() as session:
        for chunk in _chunks(rows):
            tasks, values = _tasks(session, chunk), _values(session, chunk)
            unexplained = [
                row for row in chunk if row.state == "failed" and not is_explained(row, tasks[row.pk], values[row.pk])
            ]
            marks = who_marked(session, unexplained)
            states |= {row.pk: RunState(tasks[row.pk], values[row.pk], marks.get(row.pk)) for row in chunk}
    return states


def _tasks(session: Session, rows: Sequence[RunRow]) -> dict[int, dict[str, TaskRow]]:
    by_run = {(row.dag_id, row.run_id): row.pk for row in rows}
    found: dict[int, dict[str, TaskRow]] = defaultdict(dict)
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
            found[pk][columns[0]] = TaskRow(*columns)
    return found


def _values(session: Session, rows: Sequence[RunRow]) -> dict[int, dict[tuple[str, str], Any]]:
    found: dict[int, dict[tuple[str, str], Any]] = defaultdict(dict)
    statement = select(
        TaskStateStoreModel.dag_run_id,
        TaskStateStoreModel.task_id,
        TaskStateStoreModel.key,
        TaskStateStoreModel.value,
    ).where(TaskStateStoreModel.dag_run_id.in_([row.pk for row in rows]))
    for pk, task_id, key, text in session.execute(statement):
        # Not only we write there: whatever is no JSON is nothing.
        with suppress(ValueError, RecursionError):
            found[pk][task_id, key] = json.loads(text)
    return found


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
