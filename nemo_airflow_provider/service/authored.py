"""Runs of DAGs that people write with `job_dag`: which runs they are, and the job that each of them carries.

A tag alone makes no job: the DAG's version must hold a job of the workspace. What somebody else's DAG with such a tag
runs is left out.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from airflow.models.dag import DagTag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import ColumnElement, Select, Uuid, case, func, null, select, type_coerce
from sqlalchemy.orm import Session

from nemo_airflow_provider.model import authored, names
from nemo_airflow_provider.model.authored import JobDocument
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.jsontext import json_text

#: Where Airflow keeps a DAG's default arguments.
_PATH = ("dag", "default_args", "__var", authored.DOCUMENT_KEY)

#: Versions read by one query.
_CHUNK = 400

#: Primary keys that a name was found to mean in a workspace. Each is checked when it is used: rows go and come.
_FOUND: dict[tuple[str, str], list[int]] = {}
_MOST_FOUND = 10_000

_NEWEST = (
    select(TaskInstance.dag_version_id)
    .where(
        TaskInstance.dag_id == DagRun.dag_id,
        TaskInstance.run_id == DagRun.run_id,
        TaskInstance.dag_version_id.is_not(None),
    )
    .order_by(TaskInstance.dag_version_id.desc())
    .limit(1)
    .correlate(DagRun)
    .scalar_subquery()
)

#: The version of its DAG that a run's tasks have; null for runs of shapes. Airflow gives tasks that have not begun the
#: newest version of a DAG that was edited meanwhile, and its ids grow with time.
VERSION = type_coerce(
    case(
        (DagRun.dag_id.startswith(names.DAG_PREFIX, autoescape=True), null()),
        else_=func.coalesce(_NEWEST, DagRun.created_dag_version_id),
    ),
    Uuid(),
)


def dags_of(workspace: str) -> Select[str]:
    """Ids of DAGs that may hold jobs of a workspace."""
    ours = DagTag.dag_id.startswith(names.DAG_PREFIX, autoescape=True)
    return select(DagTag.dag_id).where(DagTag.name == authored.workspace_tag(workspace), ~ours)


def runs_named(session: Session, workspace: str, name: str) -> list[int]:
    """Primary keys of runs that a job of this name is.

    A name holds a hash of its run's id, which no database index knows: the first look reads the ids of all runs of the
    DAGs that it may belong to. Who asks for a name often asks for a job that is there, so what was found is looked at
    first.
    """
    key = workspace, name
    if key in _FOUND and (found := _named(session, name, DagRun.id.in_(_FOUND[key]))):
        return found
    head = authored.head_in(name)
    if head is None:
        return []
    dag_ids = [dag_id for dag_id in session.scalars(dags_of(workspace)) if authored.head_of(dag_id) == head]
    found = _named(session, name, DagRun.dag_id.in_(dag_ids)) if dag_ids else []
    if found:
        if len(_FOUND) >= _MOST_FOUND:
            _FOUND.clear()
        _FOUND[key] = found
    return found


def _named(session: Session, name: str, condition: ColumnElement[bool]) -> list[int]:
    runs = session.execute(select(DagRun.id, DagRun.dag_id, DagRun.run_id).where(condition))
    return [pk for pk, dag_id, run_id in runs if authored.job_name(dag_id, run_id) == name]


def with_documents(
    session: Session, found: Collection[tuple[RunRow, UUID | None]], workspace: str | None = None
) -> list[RunRow]:
    """Runs in order; those of authored DAGs with their workspace, and with their job as conf.

    :param found: each run with its `VERSION`
    :param workspace: jobs of others are left out; None: of none
    """
    documents = _documents(session, {version for _, version in found if version is not None})
    rows = []
    for row, version in found:
        if names.workspace_of_dag(row.dag_id) is not None:
            rows.append(row)
        elif (document := documents.get(version)) is not None and workspace in (None, document.workspace):
            rows.append(replace(row, authored_in=document.workspace, conf=document.conf, recorded=True))
    return rows


def _documents(session: Session, versions: Iterable[UUID]) -> dict[UUID | None, JobDocument]:
    """The job that each version of a DAG holds; versions that hold none are left out."""
    wanted = list(versions)
    found: dict[UUID | None, JobDocument] = {}
    for first in range(0, len(wanted), _CHUNK):
        text = json_text(session, SerializedDagModel._data, *_PATH)
        statement = select(SerializedDagModel.dag_version_id, text, SerializedDagModel._data_compressed).where(
            SerializedDagModel.dag_version_id.in_(wanted[first : first + _CHUNK])
        )
        for version, plain, compressed in session.execute(statement):
            stored = plain if compressed is None else _inside(json.loads(zlib.decompress(compressed)))
            document = authored.read_document(stored) if isinstance(stored, str) else None
            if document is not None:
                found[version] = document
    return found


def _inside(data: Any) -> Any:
    """What `_PATH` leads to, in Airflow's own compressed form ([core] compress_serialized_dags)."""
    for key in _PATH:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data
