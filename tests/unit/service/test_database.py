"""Queries over a real SQLite with Airflow's own tables."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagTag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import create_engine, delete, event, insert
from sqlalchemy.orm import Session
from uuid6 import uuid7

from nemo_airflow_provider.model import authored, names
from nemo_airflow_provider.service import database
from nemo_airflow_provider.service.audit import marked_failed
from nemo_airflow_provider.service.gateway import RunRow
from tests.unit.service.fakes import START

DAG = "nemo.default.train.00000000"


class Tables:
    """Airflow's tables, with a run for each name."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_run(self, run_id: str, state: str = "failed", dag_id: str = DAG, conf: Any = None, **changes: Any) -> None:
        values = {
            "dag_id": dag_id,
            "run_id": run_id,
            "_state": state,
            "run_after": START,
            "start_date": START,
            "run_type": DagRunType.MANUAL,
            "triggered_by": DagRunTriggeredByType.REST_API,
            "conf": conf or {"source": "test"},
            "clear_number": 0,
            "span_status": "not_started",
            **changes,
        }
        self._session.execute(insert(DagRun).values(values))

    def add_value(self, pk: int, text: str, key: str = "step/0") -> None:
        run = self._session.get_one(DagRun, pk)
        values = {"dag_run_id": pk, "dag_id": run.dag_id, "run_id": run.run_id, "task_id": "train", "map_index": -1}
        self._session.execute(insert(TaskStateStoreModel).values(**values, key=key, value=text, updated_at=START))

    def add_dag(self, dag_id: str, tag: str, default_args: Any, *, compressed: bool = False) -> UUID:
        """A version of a DAG as `job_dag` makes it, or as somebody does who uses its tag."""
        self._session.execute(insert(DagTag).prefix_with("OR IGNORE").values(name=tag, dag_id=dag_id))
        data = {"dag": {"default_args": {"__var": default_args, "__type": "dict"}}}
        packed = zlib.compress(json.dumps(data).encode()) if compressed else None
        version = uuid7()
        values = {"dag_id": dag_id, "dag_hash": "0", "dag_version_id": version, "_data_compressed": packed}
        self._session.execute(insert(SerializedDagModel).values(**values, _data=None if compressed else data))
        return version

    def add_task(self, run_id: str, dag_id: str, task_id: str, version: UUID) -> None:
        values = {"id": uuid7(), "run_id": run_id, "dag_id": dag_id, "task_id": task_id, "dag_version_id": version}
        values |= {"map_index": -1, "try_number": 0, "max_tries": 5, "pool": "default_pool", "pool_slots": 1}
        self._session.execute(insert(TaskInstance).values(values))

    def remove_run(self, pk: int) -> None:
        self._session.execute(delete(DagRun).where(DagRun.id == pk))

    def queries(self) -> list[str]:
        """Statements from now on."""
        seen: list[str] = []
        event.listen(self._session.get_bind(), "before_cursor_execute", lambda *args: seen.append(args[2]))
        return seen

    def log(self, event: str, extra: Any, run_id: str | None = "job-1", dag_id: str = DAG, **changes: Any) -> None:
        values = {"dttm": START + timedelta(seconds=1), "owner": "bob", **changes}
        self._session.execute(
            insert(Log).values(event=event, dag_id=dag_id, run_id=run_id, extra=json.dumps(extra), **values)
        )


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    import_all_models()  # the tables refer to others
    engine = create_engine(f"sqlite:///{tmp_path}/airflow.db")
    Base.metadata.create_all(
        engine,
        tables=[
            Base.metadata.tables[name]
            for name in (
                "dag_run",
                "dag_tag",
                "log",
                "log_template",
                "serialized_dag",
                "task_instance",
                "task_state_store",
            )
        ],
    )
    with Session(engine) as session:

        @contextmanager
        def scope() -> Iterator[Session]:
            yield session

        monkeypatch.setattr(database, "session_scope", scope)
        yield Tables(session)
    engine.dispose()


def rows() -> list[RunRow]:
    return database.with_conf(database.runs_of("default"))


def test_names_that_differ_in_an_encoded_capital_only(tables: Tables) -> None:
    for name in ("job@b", "jobab"):
        for ordinal in (1, 2):
            tables.add_run(names.run_id_of(name, ordinal))
    for name in ("job@b", "jobab"):
        found = [row.run_id for row in database.runs_named("default", name)]
        assert found == [names.run_id_of(name, 2), names.run_id_of(name, 1)]


def test_values_that_are_no_json_are_nothing(tables: Tables) -> None:
    tables.add_run("job-1", "failed")
    for key, text in (("step/0", '{"status": 7}'), ("intent", "[1]"), ("step/1", "{bad"), ("x", "[" * 100_000)):
        tables.add_value(1, text, key)
    (state,) = database.states_of(rows()).values()
    assert set(state.values) == {("train", "step/0"), ("train", "intent")}


def test_more_runs_than_a_query_takes(tables: Tables) -> None:
    for number in range(2 * database._CHUNK + 1):
        tables.add_run(f"job-{number}")
    found = rows()
    assert len(found) == len(database.states_of(found)) == 2 * database._CHUNK + 1


def bulk(*entities: dict[str, Any], action: str = "update") -> dict[str, Any]:
    return {"method": "PATCH", "actions": [{"action": action, "entities": list(entities)}]}


MARKED = [
    ("patch_dag_run", {"state": "failed"}, "job-1"),
    ("patch_task_instance", {"new_state": "failed", "note": "x"}, "job-1"),
    ("patch_task_group_instances", {"new_state": "failed"}, "job-1"),
    ("bulk_dag_runs", bulk({"dag_run_id": "other"}, {"dag_run_id": "job-1", "state": "failed"}), None),
    ("bulk_task_instances", bulk({"task_id": "train", "new_state": "failed"}), "job-1"),
    ("bulk_task_instances", bulk({"dag_id": DAG, "dag_run_id": "job-1", "new_state": "failed"}), "~"),
]
NOT_MARKED = [
    ("patch_dag_run", {"note": "a word about it"}, "job-1"),
    ("patch_dag_run", {"state": "success"}, "job-1"),
    ("patch_task_instance", {"new_state": "success"}, "job-1"),
    ("patch_task_instance", {}, "job-1"),
    ("post_clear_task_instances", {"state": "failed"}, "job-1"),
    ("bulk_dag_runs", bulk({"dag_run_id": "other", "state": "failed"}), None),
    ("bulk_dag_runs", bulk({"dag_run_id": "job-1", "state": "queued"}), None),
    ("bulk_task_instances", bulk({"task_id": "train", "new_state": "failed"}, action="delete"), "job-1"),
    ("bulk_task_instances", bulk({"dag_id": "x", "dag_run_id": "job-1", "new_state": "failed"}), "~"),
]


@pytest.mark.parametrize(
    ("event", "extra", "run_id", "by"),
    [*((*case, "bob") for case in MARKED), *((*case, None) for case in NOT_MARKED)],
)
def test_who_marked_a_run_failed(tables: Tables, event: str, extra: Any, run_id: str | None, by: str | None) -> None:
    tables.add_run("job-1")
    tables.log(event, extra, run_id)
    (state,) = database.states_of(rows()).values()
    assert state.marked_failed_by == by


def test_marks_of_several_runs(tables: Tables) -> None:
    for number in range(4):
        tables.add_run(f"job-{number}", "running" if number == 3 else "failed")
    tables.log("patch_dag_run", {"state": "failed"}, "job-0", owner="ann")
    tables.log("patch_dag_run", {"state": "failed"}, "job-1", owner="ann")
    tables.log("patch_dag_run", {"state": "failed"}, "job-1", owner="bob")
    tables.log("patch_dag_run", {"state": "failed"}, "job-2", dttm=START - timedelta(seconds=1))
    tables.log("patch_dag_run", {"state": "failed"}, "job-3")
    tables.log("patch_dag_run", {"note": "x"}, "job-1", owner="eve")
    marks = {row.run_id: database.states_of([row])[row.pk].marked_failed_by for row in rows()}
    together = database.states_of(rows())
    assert marks == {"job-0": "ann", "job-1": "bob", "job-2": None, "job-3": None}
    assert {row.run_id: together[row.pk].marked_failed_by for row in rows()} == marks


@pytest.mark.parametrize(
    ("action", "clear_number", "by"),
    [("cancel", 0, None), ("cancel", -1, "bob"), ("pause", 0, "bob"), ("resume", 0, "bob")],
)
def test_only_a_cancel_keeps_a_mark_from_being_looked_for(
    tables: Tables, action: str, clear_number: int, by: str | None
) -> None:
    tables.add_run("job-1")
    intent = {"action": action, "at": START.isoformat(), "clear_number": clear_number}
    tables.add_value(1, json.dumps(intent), "intent")
    tables.log("patch_dag_run", {"state": "failed"}, "job-1")
    (state,) = database.states_of(rows()).values()
    assert state.marked_failed_by == by


@pytest.mark.parametrize("extra", [None, "", "{bad", "[]", '{"actions": 7}', '{"actions": [{"entities": [1]}]}'])
def test_audit_rows_that_say_nothing(extra: str | None) -> None:
    assert list(marked_failed(extra, DAG, "job-1")) == []


def test_runs_whose_steps_have_left_a_record(tables: Tables) -> None:
    for name in ("begun", "asked", "new"):
        tables.add_run(name)
    tables.add_value(1, "{}", "step/3")
    tables.add_value(2, "{}", "intent")
    assert {row.run_id: row.recorded for row in database.runs_of("default")} == {
        "begun": True,
        "asked": False,
        "new": False,
    }


def test_a_conf_that_is_no_json_to_the_database_costs_no_list(tables: Tables) -> None:
    tables.add_run("good")
    tables.add_run("bad", conf={"source": "x", "value": float("nan")})
    assert [row.run_id for row in database.runs_of("default")] == ["good"]


def document(workspace: str = "default", source: str = "file") -> dict[str, str]:
    """Default arguments of a DAG that `job_dag` has made."""
    steps = [{"name": "train", "executor": {"provider": "subprocess", "command": ["true"]}}]
    conf = {"source": source, "spec": {}, "platform_spec": {"steps": steps}}
    return {authored.DOCUMENT_KEY: authored.JobDocument(workspace, conf).dumps(), "owner": "ann"}


SCHEDULED = "scheduled__2026-12-01T00:00:00+00:00"


@pytest.mark.parametrize("compressed", [False, True])
def test_runs_of_authored_dags_are_found_with_their_job(tables: Tables, compressed: bool) -> None:
    old = tables.add_dag("Nightly", "nemo:default", document(source="old"), compressed=compressed)
    new = tables.add_dag("Nightly", "nemo:default", document(source="new"), compressed=compressed)
    tables.add_run(SCHEDULED, dag_id="Nightly", created_dag_version_id=old)
    tables.add_run("manual__1", dag_id="Nightly", created_dag_version_id=new, conf={"source": "mine"})
    tables.add_run("job-1")

    rows = database.runs_of("default")
    assert [(row.pk, row.conf and row.conf["source"], row.authored_in) for row in rows] == [
        (3, "test", None),
        (2, "new", "default"),
        (1, "old", "default"),
    ]
    assert [row.recorded for row in rows] == [False, True, True]
    name = rows[2].job_name
    assert name is not None and name.startswith("nightly-") and name == authored.job_name("Nightly", SCHEDULED)
    [found] = database.runs_named("default", name)
    assert (found.pk, found.workspace) == (1, "default")
    assert [row.pk for row in database.runs_made_at("default", START)] == [3, 2, 1]
    assert database.with_conf([rows[2]])[0].conf == found.conf
    assert database.runs_of("research") == database.runs_named("research", name) == []


def test_a_name_that_was_found_is_not_looked_for_in_all_runs_again(tables: Tables) -> None:
    version = tables.add_dag("Nightly", "nemo:default", document())
    for number in range(3):
        tables.add_run(f"manual__{number}", dag_id="Nightly", created_dag_version_id=version)
    name = authored.job_name("Nightly", "manual__1")
    seen = tables.queries()
    first = [row.pk for row in database.runs_named("default", name)]
    looks = len(seen)
    assert [row.pk for row in database.runs_named("default", name)] == first == [2]
    assert len(seen) - looks == looks - 1
    tables.remove_run(2)
    assert database.runs_named("default", name) == []
    tables.add_run("manual__1", dag_id="Nightly", created_dag_version_id=version)
    [again] = database.runs_named("default", name)
    assert again.run_id == "manual__1"


@pytest.mark.parametrize(
    ("dag_id", "default_args"),
    [
        ("theirs", {}),
        ("theirs", {authored.DOCUMENT_KEY: "no document"}),
        ("theirs", {authored.DOCUMENT_KEY: 7}),
        ("theirs", document("research")),
        ("nemo.research.x.00000000", document()),
    ],
)
def test_a_tag_alone_makes_no_job(tables: Tables, dag_id: str, default_args: dict[str, Any]) -> None:
    version = tables.add_dag(dag_id, "nemo:default", default_args)
    tables.add_run("job-1", dag_id=dag_id, created_dag_version_id=version)
    tables.add_run("job-2", dag_id=dag_id)
    tables.add_value(1, "{}")
    assert database.runs_of("default") == database.runs_made_at("default", START) == []
    for name in ("job-1", authored.job_name(dag_id, "job-1")):
        assert database.runs_named("default", name) == []


def test_a_list_costs_one_question_more_for_authored_runs_and_none_without(tables: Tables) -> None:
    tables.add_run("job-1")
    seen = tables.queries()
    database.runs_of("default")
    assert len(seen) == 1
    for number in range(3):
        version = tables.add_dag(f"dag-{number}", "nemo:default", document())
        tables.add_run(SCHEDULED, dag_id=f"dag-{number}", created_dag_version_id=version)
    seen.clear()
    assert len(database.runs_of("default")) == 4
    assert len(seen) == 2


def test_a_run_shows_the_version_that_its_tasks_have(tables: Tables) -> None:
    old, new = (tables.add_dag("nightly", "nemo:default", document(source=source)) for source in ("old", "new"))
    tables.add_run(SCHEDULED, dag_id="nightly", created_dag_version_id=old)
    for task_id, version in (("a", new), ("b", old)):
        tables.add_task(SCHEDULED, "nightly", task_id, version)
    [row] = database.runs_of("default")
    assert row.conf and row.conf["source"] == "new"
