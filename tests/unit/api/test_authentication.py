"""Airflow's own check of a token asks its database, before any code of the service runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from airflow import settings
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api import security
from airflow.models.revoked_token import RevokedToken
from fastapi.testclient import TestClient
from sqlalchemy.orm import scoped_session, sessionmaker
from sqlalchemy.pool import QueuePool

from nemo_airflow_provider.api.app import create_app
from nemo_airflow_provider.service.airflow import AirflowGateway
from tests.unit.api.test_app import JOBS, body

SERVER = "postgresql+psycopg2://user:password@127.0.0.1:1/airflow"
BUSY = "Airflow's database was busy or away."
UNCHANGED = {"detail": f"{BUSY} Nothing was changed; try again."}


def use(engine: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it Airflow's database, which calls itself a Postgres."""
    monkeypatch.setattr(settings, "Session", scoped_session(sessionmaker(engine)))
    monkeypatch.setattr(settings, "SQL_ALCHEMY_CONN", SERVER)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    """A database with one connection, which nobody waits long for."""
    url = f"sqlite:///{tmp_path / 'airflow.db'}"
    engine = sqlalchemy.create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05)
    RevokedToken.metadata.create_all(engine, [RevokedToken.metadata.tables["revoked_token"]])
    yield engine
    engine.dispose()


@pytest.fixture
def client(engine: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """With a valid token of the real auth manager over that database."""
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "made up for tests" * 4)
    use(engine, monkeypatch)
    manager = SimpleAuthManager()
    monkeypatch.setattr(security, "get_auth_manager", lambda: manager)
    token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="viewer"))
    headers = {"authorization": f"Bearer {token}"}
    with TestClient(create_app(), headers=headers, raise_server_exceptions=False) as client:
        yield client


def test_a_token_that_is_found_good(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this one, the others would pass for a token that nobody takes to the database."""
    monkeypatch.setattr(AirflowGateway, "allows", lambda *_: False)
    answer = client.get(JOBS)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Workspace 'default' not found"})


def test_no_connection_is_free(client: TestClient, engine: sqlalchemy.Engine, caplog: pytest.LogCaptureFixture) -> None:
    with engine.connect():
        answers = [client.get(JOBS), client.post(JOBS, json=body())]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(503, UNCHANGED)] * 2
    assert "QueuePool limit of size 1 overflow 0 reached" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_server_that_takes_no_connections(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(sqlalchemy.create_engine(SERVER), monkeypatch)
    answer = client.get(JOBS)
    assert (answer.status_code, answer.json()) == (503, UNCHANGED)
    assert "Connection refused" in caplog.text


def test_a_fault_that_no_second_try_mends(
    client: TestClient, engine: sqlalchemy.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE revoked_token"))
    answer = client.get(JOBS)
    assert (answer.status_code, answer.json()) == (500, {"detail": "An unexpected error occurred."})
    assert "no such table: revoked_token" in caplog.text


def test_a_database_that_fails_later_promises_nothing(
    client: TestClient, engine: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        with engine.connect(), engine.connect():
            raise AssertionError("there were two connections")

    monkeypatch.setattr(AirflowGateway, "allows", fail)
    answer = client.get(JOBS)
    assert (answer.status_code, answer.json()) == (503, {"detail": f"{BUSY} Try again."})
