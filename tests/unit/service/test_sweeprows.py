"""What the sweep reads and removes, over a real SQLite with Airflow's own tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import create_engine, func, insert, select
from sqlalchemy.orm import Session

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.shape import loads
from nemo_airflow_provider.service import database, returning, sweeprows
from tests.unit.service.fakes import START, spec_of

DAG = "nemo.default.train.00000000"
DAY = timedelta(days=1)


class Tables:
    """Airflow's tables."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, run_id: str, state: str = "success", ended: datetime | None = START, **changes: Any) -> int:
        """A run; its primary key."""
        values = {
            "dag_id": DAG,
            "run_id": run_id,
            "_state": state,
            "run_after": START,
            "end_date": ended,
            "run_type": DagRunType.MANUAL,
            "triggered_by": DagRunTriggeredByType.REST_API,
            "clear_number": 0,
            "span_status": "not_started",
            **changes,
        }
        self.session.execute(insert(DagRun).values(values))
        return int(self.session.scalar(select(func.max(DagRun.id))) or 0)

    def value(self, pk: int, key: str, value: Any, task_id: str = "train") -> None:
        run = self.session.get_one(DagRun, pk)
        values = {"dag_run_id": pk, "dag_id": run.dag_id, "run_id": run.run_id, "task_id": task_id, "map_index": -1}
        text = json.dumps(value)
        self.session.execute(insert(TaskStateStoreModel).values(**values, key=key, value=text, updated_at=START))

    def task(self, run_id: str, state: str, dag_id: str) -> None:
        values = {"id": uuid4(), "run_id": run_id, "dag_id": dag_id, "task_id": "sweep", "state": state}
        values |= {"map_index": -1, "try_number": 1, "max_tries": 0, "pool": "default_pool", "pool_slots": 1}
        self.session.execute(insert(TaskInstance).values(values))

    def shape(self, dag_id: str, made: datetime | None = START, *, stored: bool = True, stale: bool = False) -> None:
        if stored:
            self.session.add(Variable(key=names.shape_variable(dag_id), val="{}"))
            self.session.flush()
        if made is not None:
            self.session.add(DagModel(dag_id=dag_id, is_stale=stale, bundle_name="b", is_paused=False))
            self.session.flush()
            values = {"id": uuid4(), "dag_id": dag_id, "version_number": 1, "bundle_name": "b", "created_at": made}
            self.session.execute(insert(DagVersion).values(**values, last_updated=made))

    def runs(self) -> list[str]:
        return list(self.session.scalars(select(DagRun.run_id).order_by(DagRun.id)))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import_all_models()
    found = create_engine(f"sqlite:///{tmp_path_factory.mktemp('tables')}/airflow.db")
    Base.metadata.create_all(found)
    yield found
    found.dispose()


@pytest.fixture
def tables(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    with Session(engine) as session:

        @contextmanager
        def scope() -> Iterator[Session]:
            yield session
            session.flush()

        for module in (database, sweeprows, returning):
            monkeypatch.setattr(module, "session_scope", scope)
        yield Tables(session)
        session.rollback()


def test_runs_are_found_by_their_key_whatever_their_dag(tables: Tables) -> None:
    tables.run("job-1")
    tables.run("job-2", dag_id="somebody.elses", run_after=START + DAY)
    deleted = tables.run("job-3")
    tables.value(deleted, "deleted", {"by": "ann"})
    keys = [
        names.run_key(DAG, "job-1", START),
        names.run_key("somebody.elses", "job-2", START + DAY),
        names.run_key(DAG, "job-3", START),
    ]
    found = sweeprows.runs_with([*keys, names.run_key(DAG, "job-1", START + DAY), "no key at all"])
    assert [(row.run_id, row.deleted) for row in found.values()] == [
        ("job-1", False),
        ("job-2", False),
        ("job-3", True),
    ]
    assert list(found) == keys


def test_only_unfinished_runs_of_which_something_was_asked(tables: Tables) -> None:
    for run_id, state in (("a", "queued"), ("b", "running"), ("c", "failed"), ("d", "running")):
        pk = tables.run(run_id, state)
        if run_id != "d":
            tables.value(pk, "intent", {"action": "cancel"})
    assert [row.run_id for row in sweeprows.unfinished_with_intent()] == ["a", "b"]


@pytest.mark.parametrize(
    ("state", "seconds", "deleted", "goes"),
    [
        ("success", 61, True, True),
        ("failed", 61, True, True),
        ("success", 59, True, False),
        ("success", 61, False, False),
        ("queued", 10**6, True, False),
        ("running", 10**6, True, False),
    ],
)
def test_which_runs_are_removed(tables: Tables, state: str, seconds: float, deleted: bool, goes: bool) -> None:
    pk = tables.run("job-1", state)
    if deleted:
        tables.value(pk, "deleted", {"by": "ann"})
    assert sweeprows.remove_deleted_runs(START + timedelta(seconds=seconds)) == goes
    assert tables.runs() == ([] if goes else ["job-1"])


def test_a_run_that_never_ended_is_not_removed(tables: Tables) -> None:
    tables.value(tables.run("job-1", "failed", None), "deleted", {"by": "ann"})
    assert sweeprows.remove_deleted_runs(START + DAY) == 0


class TestAutomatedRuns:
    """Airflow finds the next run of a schedule after the newest that is there: without it, the same one runs again."""

    def runs(self, tables: Tables, *changes: dict[str, Any]) -> None:
        """Deleted ones, a day apart."""
        for number, change in enumerate(changes):
            moment = START + number * DAY
            values = {"dag_id": "mine", "run_type": DagRunType.SCHEDULED, "run_after": moment, "logical_date": moment}
            tables.value(tables.run(f"run-{number}", **{**values, **change}), "deleted", {"by": "ann"})

    @pytest.mark.parametrize("kind", [DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB])
    def test_the_newest_stays_until_there_is_a_newer(self, tables: Tables, kind: DagRunType) -> None:
        self.runs(tables, {"run_type": kind}, {"run_type": kind})
        tables.run("manual", dag_id="mine", run_after=START + 9 * DAY, logical_date=START + 9 * DAY)
        tables.run("other", dag_id="another", run_type=kind, logical_date=START + 9 * DAY)
        assert [sweeprows.remove_deleted_runs(START + DAY) for _ in range(2)] == [1, 0]
        assert tables.runs() == ["run-1", "manual", "other"]
        tables.run("newer", "running", None, dag_id="mine", run_type=kind, logical_date=START + 2 * DAY)
        assert sweeprows.remove_deleted_runs(START + DAY) == 1
        assert tables.runs() == ["manual", "other", "newer"]

    def test_the_order_is_that_of_logical_dates(self, tables: Tables) -> None:
        """A backfill's are of the past."""
        self.runs(tables, {}, {"run_type": DagRunType.BACKFILL_JOB, "logical_date": START - DAY})
        assert sweeprows.remove_deleted_runs(START + DAY) == 1
        assert tables.runs() == ["run-0"]

    def test_partitions_have_an_order_of_their_own(self, tables: Tables) -> None:
        partition = {"logical_date": None, "partition_key": "p"}
        self.runs(
            tables,
            {**partition, "partition_date": START},
            {**partition, "partition_date": START + DAY},
            {**partition, "partition_date": None},
            {"logical_date": START + 9 * DAY},
        )
        assert sweeprows.remove_deleted_runs(START + DAY) == 2
        assert tables.runs() == ["run-1", "run-3"]

    def test_partitions_without_a_date(self, tables: Tables) -> None:
        partition = {"logical_date": None, "partition_key": "p"}
        self.runs(tables, partition, partition)
        assert sweeprows.remove_deleted_runs(START + DAY) == 1
        assert tables.runs() == ["run-1"]

    def test_a_schedules_newest_sweep_stays_too(self, tables: Tables) -> None:
        self.runs(tables, {}, {"run_type": DagRunType.MANUAL})
        assert sweeprows.remove_old_runs("mine", START + DAY, 1) == 0


def test_the_newest_sweeps_are_kept(tables: Tables) -> None:
    for number in range(6):
        moment = START + timedelta(minutes=number)
        tables.run(f"run-{number}", "running" if number == 0 else "success", moment, dag_id="s", run_after=moment)
        entry = {"event": "success", "dag_id": "s", "dttm": moment}
        tables.session.execute(insert(Log).values(**entry))
    tables.run("job-1")
    assert sweeprows.remove_old_runs("s", START + DAY, 2) == 3
    assert tables.runs() == ["run-0", "run-4", "run-5", "job-1"]
    assert sweeprows.remove_old_runs("s", START + DAY, 2) == 0
    assert tables.session.scalar(select(func.count()).select_from(Log)) == 6, "the run at work is the oldest"


class TestShapes:
    SINCE = START + 30 * DAY

    @pytest.mark.parametrize(
        ("state", "stored", "conf", "comes_back"),
        [
            ("queued", False, True, True),
            ("running", False, True, True),
            ("success", False, True, False),
            ("failed", False, True, False),
            ("queued", True, True, False),
            ("queued", False, False, False),
        ],
    )
    def test_which_come_back(self, tables: Tables, state: str, stored: bool, conf: bool, comes_back: bool) -> None:
        spec = spec_of("one", "two")
        dag_id = names.shape_dag_id("default", spec.platform_spec.shape())
        tables.shape(dag_id, stored=stored, stale=True)
        tables.run("job-1", state, dag_id=dag_id, conf=spec.model_dump(mode="json") if conf else {"x": 1})
        tables.run("by-hand", "running", dag_id=names.anchor_dag_id("default"))
        tables.run("job-1", "running", dag_id="somebody.elses")
        assert returning.restore_shapes() == (1 if comes_back else 0)
        value = database.shape_value(dag_id)
        assert (value is not None) is (comes_back or stored)
        if comes_back:
            assert loads(dag_id, value or "").dag_id == dag_id
        assert returning.restore_shapes() == 0

    @pytest.mark.parametrize(
        ("made", "run", "unused"),
        [
            (START, None, True),
            (START + 30 * DAY, None, False),
            (None, None, False),
            (START, {"state": "success"}, True),
            (START, {"state": "running", "ended": None}, False),
            (START, {"state": "queued", "ended": None}, False),
            (START, {"run_after": START + 30 * DAY}, False),
            (START, {"ended": START + 30 * DAY}, False),
        ],
    )
    def test_which_are_unused(
        self, tables: Tables, made: datetime | None, run: dict[str, Any] | None, unused: bool
    ) -> None:
        tables.shape(DAG, made)
        if run is not None:
            tables.run("job-1", **run)
        assert sweeprows.unused_shapes(self.SINCE) == ([DAG] if unused else [])
        assert sweeprows.retire_shape(DAG, self.SINCE) is unused
        stored = tables.session.scalar(select(func.count()).select_from(Variable))
        assert stored == (0 if unused else 1)
        assert tables.runs() == ([] if run is None else ["job-1"]), "people's jobs stay"

    @pytest.mark.parametrize(
        ("dag_id", "stored", "stale", "run", "goes"),
        [
            (DAG, False, True, False, True),
            (DAG, False, True, True, False),
            (DAG, True, True, False, False),
            (DAG, False, False, False, False),
            ("nemo.default", False, True, False, False),
            ("somebody.elses", False, True, False, False),
        ],
    )
    def test_which_dags_go(self, tables: Tables, dag_id: str, stored: bool, stale: bool, run: bool, goes: bool) -> None:
        tables.shape(dag_id, stored=stored, stale=stale)
        if run:
            tables.run("job-1", dag_id=dag_id)
        assert sweeprows.stale_dags() == ([dag_id] if goes else [])
        assert sweeprows.remove_stale_dag(dag_id) is goes
        assert tables.session.scalar(select(func.count()).select_from(DagModel)) == (0 if goes else 1)


@pytest.mark.parametrize(
    ("state", "asked", "found"),
    [
        ("running", ("nemo-sweep", "run", "sweep"), '"x"'),
        ("success", ("nemo-sweep", "run", "sweep"), None),
        ("running", ("nemo.default", "run", "sweep"), None),
        ("running", ("nemo-sweep", "other", "sweep"), None),
        ("running", ("nemo-sweep", "run", "other"), None),
    ],
)
def test_only_a_running_task_has_a_credential(
    tables: Tables, state: str, asked: tuple[str, str, str], found: str | None
) -> None:
    pk = tables.run("run", "running", dag_id="nemo-sweep")
    tables.value(pk, "credential", "x", "sweep")
    tables.task("run", state, "nemo-sweep")
    assert sweeprows.running_value(*asked, "credential") == found


def test_the_installation_is_remembered(tables: Tables) -> None:
    assert sweeprows.stored_installation() is None
    sweeprows.store_installation("0123456789abcdef")
    assert sweeprows.stored_installation() == "0123456789abcdef"
