"""`Gateway` over the Airflow this API server is part of."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
from airflow.api_fastapi.app import cached_app, get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidJob,
    NemoJobsError,
    NotFound,
    Unavailable,
)
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import ASKED_AT
from nemo_airflow_provider.service import database, outage, variable
from nemo_airflow_provider.service.gateway import Caller, Right, RunRow, RunState
from nemo_airflow_provider.service.locks import name_lock

_QUESTIONS: dict[Right, tuple[str, DagAccessEntity]] = {
    Right.READ: ("GET", DagAccessEntity.RUN),
    Right.READ_LOGS: ("GET", DagAccessEntity.TASK_LOGS),
    Right.CREATE: ("POST", DagAccessEntity.RUN),
    Right.UPDATE: ("PUT", DagAccessEntity.RUN),
    Right.ANSWER: ("PUT", DagAccessEntity.HITL_DETAIL),
    Right.DELETE: ("DELETE", DagAccessEntity.RUN),
}

#: A parse that had begun before our request eats it, so it is asked for again.
_ASK_AGAIN_SECONDS = 2.0
_SHAPE_SECONDS = 30.0

#: For one call of Airflow's API: whoever waits for it may hold a job's lock.
_CALL_SECONDS = 60.0

#: What Airflow answers, with status 500, for a database that is locked, away or broken; which one its log says alone.
_DATABASE_ERROR = "Database error"


class AirflowGateway:
    """Reads through `database`; runs are made and marked through Airflow's own REST API, in process."""

    def allows(self, caller: Caller, right: Right, dag_id: str) -> bool:
        """Ask Airflow's auth manager."""
        method, entity = _QUESTIONS[right]
        details = DagDetails(id=dag_id, team_name=variable.team_of(dag_id))
        with outage.told():
            return bool(
                get_auth_manager().is_authorized_dag(
                    method=method,
                    access_entity=entity,
                    details=details,
                    user=caller.user,
                )
            )

    def has_variable(self, key: str, workspace: str) -> bool:
        """See `Gateway`."""
        return variable.is_set(key, variable.team_of(names.anchor_dag_id(workspace)))

    def runs_named(self, workspace: str, name: str) -> Sequence[RunRow]:
        """See `Gateway`."""
        return database.runs_named(workspace, name)

    def runs_made_at(self, workspace: str, run_after: datetime) -> Sequence[RunRow]:
        """See `Gateway`."""
        return database.runs_made_at(workspace, run_after)

    def runs_of(self, workspace: str) -> Sequence[RunRow]:
        """See `Gateway`."""
        return database.runs_of(workspace)

    def with_conf(self, rows: Sequence[RunRow]) -> Sequence[RunRow]:
        """See `Gateway`."""
        return database.with_conf(rows)

    def states_of(self, rows: Sequence[RunRow]) -> Mapping[int, RunState]:
        """See `Gateway`."""
        return database.states_of(rows)

    def write_value(self, row: RunRow, task_ids: Collection[str], key: str, value: Any) -> None:
        """See `Gateway`."""
        database.write_value(row, task_ids, key, value)

    @asynccontextmanager
    async def name_lock(self, workspace: str, name: str, shape: str | None = None) -> AsyncIterator[None]:
        """See `Gateway`."""
        async with AsyncExitStack() as held:
            with outage.told():
                await held.enter_async_context(name_lock(workspace, name, settings.storage(), shape=shape))
            yield

    def has_shape(self, dag_id: str) -> bool:
        """See `Gateway`."""
        return database.shape_value(dag_id) is not None and database.dag_is_ready(dag_id)

    async def ensure_shape(self, dag_id: str, value: str) -> None:
        """See `Gateway`."""
        if not await run_in_threadpool(_store_shape, dag_id, value):
            return
        anchor = names.anchor_dag_id(names.workspace_of_dag(dag_id) or "")
        deadline = time.monotonic() + _SHAPE_SECONDS
        ask_at = 0.0
        known = True
        while not await run_in_threadpool(database.dag_is_ready, dag_id):
            moment = time.monotonic()
            if moment > deadline:
                raise Unavailable(_unread_text(dag_id) if known else _unknown_text(anchor))
            if moment >= ask_at:
                # Right after its start Airflow has not read our file even once, and needs no asking to do so.
                known = await run_in_threadpool(database.request_parse, anchor)
                ask_at = moment + _ASK_AGAIN_SECONDS
            await asyncio.sleep(0.05)

    async def trigger(self, caller: Caller, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> RunRow:
        """See `Gateway`."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        answer = await self._call(caller, "POST", f"/dags/{quote(dag_id)}/dagRuns", body)
        return RunRow(
            pk=0,
            dag_id=dag_id,
            run_id=run_id,
            state=answer["state"],
            run_after=datetime.fromisoformat(answer["run_after"]),
            clear_number=0,
            user=caller.name,
            conf=conf,
        )

    async def mark_failed(self, caller: Caller, row: RunRow) -> None:
        """See `Gateway`."""
        await self._call(caller, "PATCH", _run_path(row), {"state": "failed"})

    async def answer(self, caller: Caller, row: RunRow, task_id: str, option: str, asked_at: datetime) -> None:
        """See `Gateway`."""
        path = f"{_run_path(row)}/taskInstances/{quote(task_id, safe='')}/-1/hitlDetails"
        params = {ASKED_AT: asked_at.isoformat()}
        await self._call(caller, "PATCH", path, {"chosen_options": [option], "params_input": params})

    async def _call(self, caller: Caller, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """One call of Airflow's REST API: validation, audit, listeners and permissions are Airflow's.

        It runs in an event loop of its own. Airflow commits its audit row in the loop; on SQLite that waits for the
        writer before it, which may be a request that needs this server's loop to end.
        """
        with outage.told():
            return await run_in_threadpool(lambda: asyncio.run(self._ask(caller, method, path, body)))

    async def _ask(self, caller: Caller, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        # The same cache key as Airflow's own entry point uses, so that no second app is built.
        app = cached_app(apps=os.environ.get("AIRFLOW_API_APPS", "all"))
        transport = httpx.ASGITransport(app=app)
        try:
            # A transport in process knows no timeout of its own.
            async with (
                asyncio.timeout(_CALL_SECONDS),
                httpx.AsyncClient(transport=transport, base_url="http://airflow") as client,
            ):
                answer = await client.request(method, f"/api/v2{path}", json=body, headers=dict(caller.headers))
        except TimeoutError:
            raise Unavailable(
                f"Airflow has not answered {method} {path} within {_CALL_SECONDS:g} s. Look whether it was done "
                "before you try again."
            ) from None
        if answer.is_success:
            result: dict[str, Any] = answer.json()
            return result
        raise _refusal(answer)


def _run_path(row: RunRow) -> str:
    return f"/dags/{quote(row.dag_id)}/dagRuns/{quote(row.run_id, safe='')}"


def _unread_text(dag_id: str) -> str:
    return (
        f"Airflow has not read the new job shape {dag_id} within {_SHAPE_SECONDS:g} s. Is the dag-processor running? "
        "Nothing was created; try again."
    )


def _unknown_text(anchor: str) -> str:
    return (
        f"Airflow does not know the DAG {anchor}. Is the dag-processor running, and does "
        "[dag_processor] dag_bundle_config_list name nemo_airflow_provider.dags.bundle.JobsDagBundle? "
        "Nothing was created."
    )


def _store_shape(dag_id: str, value: str) -> bool:
    """Store a shape if it is new; returns whether its DAG must be waited for."""
    stored = database.shape_value(dag_id)
    if stored is not None and stored != value:
        raise Conflict(
            f"The Airflow Variable {names.shape_variable(dag_id)} was changed by hand or by a hash collision. "
            "Delete it and try again."
        )
    if stored is None:
        limit = settings.max_shapes()
        if database.shape_count() >= limit:
            raise Unavailable(
                f"There are {limit} job shapes already ([nemo] max_shapes). Raise the option, or delete "
                f"Variables whose key begins with {names.SHAPE_VARIABLE_PREFIX} and whose jobs are over."
            )
        database.store_shape(dag_id, value)
    return not database.dag_is_ready(dag_id)


def _refusal(answer: httpx.Response) -> NemoJobsError:
    """Airflow's refusal as one of ours."""
    kinds: dict[int, type[NemoJobsError]] = {
        400: BadRequest,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        422: InvalidJob,
    }
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError):
        detail = None
    if isinstance(detail, dict) and detail.get("reason") == _DATABASE_ERROR:
        return outage.refused()
    # Anything but a sentence is a report of the database or of a validator: not for who asked, and not the wire's form.
    text = f": {detail}" if isinstance(detail, str) else ". Its log says why."
    return kinds.get(answer.status_code, NemoJobsError)(f"Airflow answered {answer.status_code}{text}")
