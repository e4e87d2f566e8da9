"""Airflow's own API as it is called in process: its refusals, its database, and one that never answers."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow import settings
from airflow.api_fastapi.common.exceptions import init_error_handlers
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError

from nemo_airflow_provider.errors import BadRequest, Conflict, InvalidJob, NemoJobsError, Unavailable
from nemo_airflow_provider.service import airflow, locks
from nemo_airflow_provider.service.airflow import AirflowGateway
from nemo_airflow_provider.service.away import DatabaseAway
from nemo_airflow_provider.service.gateway import Right
from tests.unit.service.fakes import ANN


def serve(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> None:
    """An Airflow that always answers this."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)


def trigger() -> None:
    asyncio.run(AirflowGateway().trigger(ANN, "nemo.default.x", "job-1", {}))


@pytest.mark.parametrize(
    ("status", "detail", "kind", "text"),
    [
        (400, "DAG is not active", BadRequest, "Airflow answered 400: DAG is not active"),
        (
            409,
            {"reason": "Unique constraint", "sql": "INSERT"},
            Conflict,
            "Airflow answered 409. Its log says why.",
        ),
        (422, [{"loc": ["body"], "msg": "bad"}], InvalidJob, "Airflow answered 422. Its log says why."),
        (500, None, NemoJobsError, "Airflow answered 500. Its log says why."),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch, status: int, detail: Any, kind: type[NemoJobsError], text: str
) -> None:
    serve(monkeypatch, status, json.dumps({"detail": detail}).encode())
    with pytest.raises(NemoJobsError) as caught:
        trigger()
    assert (type(caught.value), str(caught.value)) == (kind, text)


def locked() -> OperationalError:
    """What SQLAlchemy makes of SQLite's word for a database that is locked."""
    raised = sqlite3.OperationalError("database is locked")
    raised.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return OperationalError("INSERT INTO dag_run", {}, raised)


LOCKED = locked()
HINT = " SQLite takes one writer at a time: where many work at once, give Airflow a Postgres."
BUSY = f"Airflow's database was busy or away. Try again.{HINT}"
REFUSED = "Airflow's database refused what was asked; the log of its API server says why, and it may pass. Try again."


@pytest.mark.parametrize(
    ("database", "text"), [("sqlite:////srv/airflow.db", REFUSED + HINT), ("postgresql://db/airflow", REFUSED)]
)
def test_a_database_that_failed_airflow(monkeypatch: pytest.MonkeyPatch, database: str, text: str) -> None:
    """The answer is the one of Airflow's own error handler, which says neither why nor what was done."""
    app = FastAPI()
    init_error_handlers(app)

    @app.post("/api/v2/dags/{dag_id}/dagRuns")
    def fail(dag_id: str) -> None:
        raise LOCKED

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    monkeypatch.setattr(settings, "SQL_ALCHEMY_CONN", database)
    with pytest.raises(DatabaseAway) as caught:
        trigger()
    assert (str(caught.value), caught.value.undone) == (text, False)


def test_a_database_that_is_locked_where_airflow_has_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise LOCKED

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    with pytest.raises(Unavailable, match=BUSY):
        trigger()


def test_a_database_that_is_locked_when_a_right_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Manager:
        def is_authorized_dag(self, **_: Any) -> bool:
            raise LOCKED

    monkeypatch.setattr(airflow, "get_auth_manager", Manager)
    with pytest.raises(Unavailable, match=BUSY):
        AirflowGateway().allows(ANN, Right.READ, "nemo.default")


def test_a_database_that_is_locked_when_a_name_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def no_session(scoped: bool) -> Iterator[Any]:
        raise LOCKED
        yield

    async def take() -> None:
        async with AirflowGateway().name_lock("default", "job"):
            raise AssertionError("taken")

    monkeypatch.setattr(locks, "create_session", no_session)
    with pytest.raises(Unavailable, match=BUSY):
        asyncio.run(take())


def test_what_fails_under_a_lock_is_not_told_as_the_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def session(scoped: bool) -> Iterator[Any]:
        yield Mock()

    async def fail() -> None:
        async with AirflowGateway().name_lock("default", "job"):
            raise LOCKED

    monkeypatch.setattr(locks, "create_session", session)
    monkeypatch.setenv("AIRFLOW__NEMO__STORAGE", str(tmp_path))
    with pytest.raises(OperationalError):
        asyncio.run(fail())


@pytest.mark.parametrize("content", [b"<html>secret</html>", b"[1]", b""])
def test_a_refusal_that_is_no_object(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    serve(monkeypatch, 502, content)
    with pytest.raises(NemoJobsError, match="^Airflow answered 502. Its log says why.$"):
        trigger()


def test_an_airflow_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    monkeypatch.setattr(airflow, "_CALL_SECONDS", 0.05)
    with pytest.raises(Unavailable, match="Airflow has not answered POST /dags/nemo.default.x/dagRuns within 0.05 s"):
        trigger()


def test_an_airflow_that_blocks_its_loop_does_not_block_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        deadline = time.monotonic() + 10
        while len(ticks) < 3:  # a lock that is let go once our loop has done something
            assert time.monotonic() < deadline, "our event loop stands still"
            time.sleep(0.01)
        await send({"type": "http.response.start", "status": 409, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(1)

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        try:
            await AirflowGateway().trigger(ANN, "nemo.default.x", "job-1", {})
        finally:
            ticking.cancel()

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    with pytest.raises(Conflict):
        asyncio.run(both())
