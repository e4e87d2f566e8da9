"""Airflow's audit log: who marked a run, or a step of it, failed on Airflow's own pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow.models.log import Log
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from nemo_airflow_provider.model.record import INTENT_KEY, generation_of, parse_intent, parse_record, step_key
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.service.gateway import RunRow, TaskRow

#: Events of calls that can set a state. Each is logged whatever it changes: a note, a success, a failure.
_EVENTS = (
    "patch_dag_run",
    "patch_task_instance",
    "patch_task_group_instances",
    "bulk_dag_runs",
    "bulk_task_instances",
)

#: Stands for any DAG or any run in the path of a bulk call; its entities name theirs.
_ANY = "~"


def is_explained(row: RunRow, tasks: Mapping[str, TaskRow], values: Mapping[tuple[str, str], Any]) -> bool:
    """Whether a step in error or a cancel says why this attempt failed; else somebody may have marked it."""
    for task_id, task in tasks.items():
        record = parse_record(values.get((task_id, step_key(generation_of(task.max_tries)))))
        if record is not None and record.status is Status.ERROR:
            return True
    intents = (parse_intent(value) for (_, key), value in values.items() if key == INTENT_KEY)
    cancels = (intent for intent in intents if intent is not None and intent.action is Action.CANCEL)
    return any(intent.binds(row.clear_number) for intent in cancels)


def who_marked(session: Session, rows: Sequence[RunRow]) -> dict[int, str]:
    """Who marked each of these runs failed since its attempt began, by `pk`; runs that nobody marked are absent."""
    if not rows:
        return {}
    begun = {(row.dag_id, row.run_id): row for row in rows}
    statement = select(Log.dag_id, Log.run_id, Log.owner, Log.dttm, Log.extra).where(
        Log.event.in_(_EVENTS),
        Log.dag_id.in_({_ANY, *(row.dag_id for row in rows)}),
        or_(Log.run_id.in_({_ANY, *(row.run_id for row in rows)}), Log.run_id.is_(None)),
        Log.dttm >= min(row.start_date or row.run_after for row in rows),
    )
    found: dict[int, str] = {}
    for dag_id, run_id, owner, moment, extra in session.execute(statement.order_by(Log.id)):
        for marked in marked_failed(extra, dag_id, run_id):
            row = begun.get(marked)
            if row is not None and moment >= (row.start_date or row.run_after):
                found[row.pk] = owner
    return found


def marked_failed(extra: str | None, dag_id: str | None, run_id: str | None) -> Iterator[tuple[str, str]]:
    """The (DAG id, run id) of what a logged call marked failed.

    :param extra: the call's body as Airflow logs it
    :param dag_id: DAG id in the call's path
    :param run_id: run id in the call's path
    """
    try:
        body = json.loads(extra or "")
    except (ValueError, RecursionError):
        return
    if not isinstance(body, dict):
        return
    if "actions" not in body:
        if dag_id and run_id and _sets_failed(body):
            yield dag_id, run_id
        return
    for action in _dicts(body["actions"]):
        for entity in _dicts(action.get("entities")):
            marked = _given(entity.get("dag_id"), dag_id), _given(entity.get("dag_run_id"), run_id)
            if marked[0] and marked[1] and action.get("action") == "update" and _sets_failed(entity):
                yield marked[0], marked[1]


def _sets_failed(change: Mapping[str, Any]) -> bool:
    return "failed" in (change.get("state"), change.get("new_state"))


def _given(in_entity: object, in_path: str | None) -> str | None:
    return in_entity if isinstance(in_entity, str) else in_path


def _dicts(items: object) -> Iterator[dict[str, Any]]:
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())
