"""Databases that do not do what they are asked, with a real SQLite where that is possible."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from airflow import settings
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import sessionmaker

from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.service import database, outage

SQLITE = (
    "Airflow's database was busy or away. Nothing was created or changed; try again. SQLite takes one writer at a "
    "time: where many work at once, give Airflow a Postgres."
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Airflow's database, where whoever waits for another writer does not wait long."""
    path = tmp_path / "airflow.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.05})
    monkeypatch.setattr(settings, "NonScopedSession", sessionmaker(engine))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE numbers (number INTEGER)"))
    yield path
    engine.dispose()


def write() -> None:
    with database.session_scope() as session:
        session.execute(sqlalchemy.text("INSERT INTO numbers VALUES (1)"))


def test_a_writer_that_does_not_get_its_turn(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as caught:
        write()
    assert str(caught.value) == SQLITE
    assert caplog.messages == ["Airflow's database: database is locked"]
    other.execute("ROLLBACK")
    write()
    assert other.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
    other.close()


def test_a_query_that_is_wrong_is_our_mistake() -> None:
    with pytest.raises(ProgrammingError), outage.told():
        raise ProgrammingError("SELECT nonsense", {}, Exception("no such column"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OperationalError("UPDATE", {}, Exception("deadlock detected")),
            "Airflow's database was busy or away. Nothing was created or changed; try again.",
        ),
        (
            PoolTimeout("QueuePool limit reached"),
            "Airflow's database was busy or away. Nothing was created or changed; try again.",
        ),
        (
            OperationalError("COMMIT", {}, Exception("server closed the connection"), connection_invalidated=True),
            "Airflow's database was busy or away. Look whether it was done before you try again.",
        ),
    ],
)
def test_a_server_that_is_busy_or_away(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    monkeypatch.setattr(settings, "SQL_ALCHEMY_CONN", "postgresql+psycopg2://user:password@db/airflow")
    with pytest.raises(Unavailable) as caught, outage.told():
        raise error
    assert str(caught.value) == text
