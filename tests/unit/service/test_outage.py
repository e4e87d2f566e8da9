"""Databases that do not do what they are asked, with a real SQLite where that is possible."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import sqlalchemy
from airflow import settings
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import sessionmaker

from nemo_airflow_provider.service import database, outage
from nemo_airflow_provider.service.away import DatabaseAway

BUSY = "Airflow's database was busy or away. Try again."
SQLITE = f"{BUSY} SQLite takes one writer at a time: where many work at once, give Airflow a Postgres."


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Airflow's database, where whoever waits for another writer does not wait long."""
    path = tmp_path / "airflow.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.05})
    monkeypatch.setattr(settings, "NonScopedSession", sessionmaker(engine))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE numbers (number INTEGER PRIMARY KEY)"))
    yield path
    engine.dispose()


def ask(statement: str) -> None:
    with database.session_scope() as session:
        session.execute(sqlalchemy.text(statement))


def test_a_writer_that_does_not_get_its_turn(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseAway) as caught:
        ask("INSERT INTO numbers VALUES (1)")
    assert (str(caught.value), caught.value.undone) == (SQLITE, True)
    assert caplog.messages == ["Airflow's database: database is locked"]
    other.execute("ROLLBACK")
    ask("INSERT INTO numbers VALUES (1)")
    assert other.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
    other.close()


@pytest.mark.parametrize(
    ("statements", "kind", "text"),
    [
        (["SELECT * FROM words"], OperationalError, "no such table"),
        (["SELECT word FROM numbers"], OperationalError, "no such column"),
        (["PRAGMA query_only = 1", "INSERT INTO numbers VALUES (1)"], OperationalError, "readonly database"),
        (
            ["PRAGMA max_page_count = 2", "CREATE TABLE a (a)", "CREATE TABLE b (b)"],
            OperationalError,
            "database or disk is full",
        ),
        (["INSERT INTO numbers VALUES (1)", "INSERT INTO numbers VALUES (1)"], IntegrityError, "UNIQUE"),
    ],
)
def test_what_no_other_try_would_mend_stays_what_it_is(
    file: Path, caplog: pytest.LogCaptureFixture, statements: list[str], kind: type[DBAPIError], text: str
) -> None:
    with pytest.raises(kind, match=text), database.session_scope() as session:
        for statement in statements:
            session.execute(sqlalchemy.text(statement))
    assert caplog.messages == []


class Postgres(psycopg2.OperationalError):
    """An error that a server has given a SQLSTATE."""

    def __init__(self, state: str) -> None:
        super().__init__("FATAL: in the language of the server")
        self.state = state

    @property
    def pgcode(self) -> str:  # type: ignore[override]
        return self.state


def told_of(error: Exception, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is raised instead of an error of a database server."""
    monkeypatch.setattr(settings, "SQL_ALCHEMY_CONN", "postgresql+psycopg2://user:password@db/airflow")
    with pytest.raises(Exception) as caught, outage.told():  # noqa: PT011
        raise error
    return caught.value


def lost(error: Exception) -> InterfaceError:
    return InterfaceError("COMMIT", {}, error, connection_invalidated=True)


@pytest.mark.parametrize(
    ("error", "undone"),
    [
        *((OperationalError("", {}, Postgres(state)), True) for state in ("08006", "40P01", "53300", "55P03", "57P03")),
        *((OperationalError("", {}, Exception(code, "")), True) for code in (1205, 1213)),
        (OperationalError("", {}, Exception(2013, "lost"), connection_invalidated=True), False),
        (lost(psycopg2.InterfaceError("connection already closed")), False),
        (OperationalError("", {}, psycopg2.OperationalError("Connection refused")), False),
        (PoolTimeout("QueuePool limit reached"), True),
    ],
)
def test_a_server_that_is_busy_or_away(monkeypatch: pytest.MonkeyPatch, error: Exception, undone: bool) -> None:
    told = told_of(error, monkeypatch)
    assert (type(told), str(told), told.undone) == (DatabaseAway, BUSY, undone)


@pytest.mark.parametrize(
    "error",
    [
        ProgrammingError("", {}, Postgres("42P01")),
        InternalError("", {}, Postgres("25006")),
        OperationalError("", {}, Postgres("53100")),
        OperationalError("", {}, Exception(1054, "Unknown column")),
        OperationalError("", {}, sqlite3.OperationalError("Could not decode to UTF-8 column")),
        InterfaceError("", {}, psycopg2.InterfaceError("only protocol 3 supported")),
        IntegrityError("", {}, Exception()),
    ],
)
def test_a_server_that_has_another_fault(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert told_of(error, monkeypatch) is error


def test_a_server_that_is_not_there() -> None:
    """What psycopg2 says of a port where nobody listens."""
    engine = sqlalchemy.create_engine("postgresql+psycopg2://user:password@127.0.0.1:1/airflow")
    with pytest.raises(DatabaseAway), outage.told(), engine.connect():
        raise AssertionError("connected")


def test_a_connection_that_was_closed() -> None:
    """By what psycopg2 says of it, SQLAlchemy knows that it is lost."""
    error = psycopg2.InterfaceError("connection already closed")
    dialect: Any = sqlalchemy.create_engine("postgresql+psycopg2://user@db/airflow").dialect
    assert dialect.is_disconnect(error, None, None)
