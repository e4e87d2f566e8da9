"""Whether Airflow has a Variable, over its own backends and a real SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from airflow import configuration
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.variable import Variable
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.service import variable
from nemo_airflow_provider.service.away import DatabaseAway

STORED, KEPT, FILED = "nemo_secret.default.stored", "nemo_secret.default.kept", "nemo_secret.default.filed"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a custom backend reads."""
    file = tmp_path / "variables.json"
    file.write_text(json.dumps({FILED: "x"}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"variables_file_path": str(file)}))
    monkeypatch.setattr(configuration, "secrets_backend_list", [None, None])  # so few are loaded anew
    return file


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    import_all_models()
    engine = create_engine(f"sqlite:///{tmp_path}/airflow.db")
    Base.metadata.create_all(engine, tables=[Base.metadata.tables[name] for name in ("variable", "team")])
    with Session(engine) as session:
        session.add(Variable(STORED, "value"))
        session.add(Variable("nemo_secret.default.empty", ""))
        session.flush()

        @contextmanager
        def scope() -> Iterator[Session]:
            yield session

        monkeypatch.setattr(variable, "session_scope", scope)
        yield session
    engine.dispose()


def test_all_backends_are_asked(file: Path, database: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_NEMO_SECRET.DEFAULT.KEPT", "value")
    for key in (STORED, KEPT, FILED, "nemo_secret.default.empty"):
        assert variable.is_set(key, None)
    assert not variable.is_set("nemo_secret.default.gone", None)


def test_a_custom_backend_that_fails(file: Path, database: Session) -> None:
    file.write_text("{broken")
    assert variable.is_set(STORED, None)
    with pytest.raises(Unavailable, match="^Airflow's secrets backend LocalFilesystemBackend failed: "):
        variable.is_set(FILED, None)


def test_a_database_that_is_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def away() -> Iterator[Session]:
        raise DatabaseAway("Airflow's database was busy or away.") from OperationalError("", {}, Exception())
        yield

    monkeypatch.setattr(variable, "session_scope", away)
    assert variable.is_set(FILED, None)
    with pytest.raises(DatabaseAway):
        variable.is_set(STORED, None)


def test_without_teams_no_dag_is_looked_at() -> None:
    assert variable.team_of("nemo.default") is None
