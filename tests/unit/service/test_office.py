"""Whom the sweep's office serves, and that one chore that fails keeps no other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider import installation
from nemo_airflow_provider.errors import Conflict, Unavailable
from nemo_airflow_provider.logs.layout import StreamId, make_directory
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import DELETED_KEY, INTENT_KEY, Handle, Intent
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.model.verdict import verdict_key
from nemo_airflow_provider.service import oldlogs, sweep
from nemo_airflow_provider.service.away import DatabaseAway
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.standing import standing_of
from nemo_airflow_provider.service.sweep import SweepOffice
from nemo_airflow_provider.sweep.office import AskedJob, AskedWorkload, Ending, Hold, JobStanding
from tests.unit.service.fakes import START, FakeGateway, record


class Rows:
    """The database of an installation, or of none yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stored: str | None = None) -> None:
        self.stored = stored
        for name in ("stored_installation", "store_installation"):
            monkeypatch.setattr(sweep.sweeprows, name, getattr(self, name))

    def stored_installation(self) -> str | None:
        return self.stored

    def store_installation(self, value: str) -> None:
        self.stored = value


def test_a_new_installation_is_noted_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(monkeypatch)
    ours = installation.installation_id(tmp_path)
    for _ in range(2):
        SweepOffice(tmp_path).admit(ours)
    assert rows.stored == ours
    assert installation.is_claimed(tmp_path)


def test_one_that_was_killed_in_between_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = installation.installation_id(tmp_path)
    Rows(monkeypatch, stored=ours)
    SweepOffice(tmp_path).admit(ours)
    assert installation.is_claimed(tmp_path)


def test_a_worker_with_another_storage_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(monkeypatch)
    with pytest.raises(Conflict, match="All parts of Airflow must share the directory"):
        SweepOffice(tmp_path).admit("00000000deadbeef")
    assert rows.stored is None


@pytest.mark.parametrize("stored", [None, "00000000deadbeef"])
def test_a_database_beside_anothers_storage_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str | None
) -> None:
    rows = Rows(monkeypatch, stored)
    ours = installation.installation_id(tmp_path)
    installation.claim(tmp_path)
    with pytest.raises(Conflict, match="belongs to another installation"):
        SweepOffice(tmp_path).admit(ours)
    assert rows.stored == stored


class Airflow(FakeGateway):
    """The tables as the office reads them; `broken` are the names of jobs with which something unforeseen is wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.patch = monkeypatch
        self.broken: set[str] = set()
        self.asked: list[str] = []
        for name, answer in (("remove_deleted_runs", 2), ("remove_old_runs", 0)):
            self.answer(name, answer)
        for name in ("unused_shapes", "stale_dags"):
            self.answer(name, [])
        for name in ("runs_with", "unfinished_with_intent", "mark_failed"):
            monkeypatch.setattr(sweep.sweeprows, name, getattr(self, "sweep_" + name.split("_")[0]))
        for module, name in (("database", "with_conf"), ("database", "states_of"), ("database", "write_value")):
            monkeypatch.setattr(getattr(sweep, module), name, getattr(self, name))
        monkeypatch.setattr(sweep.returning, "restore_shapes", lambda: 0)
        monkeypatch.setattr(sweep, "name_lock", lambda workspace, name, _: self.name_lock(workspace, name))
        monkeypatch.setattr(sweep, "shape_lock", lambda *_: nullcontext(True))

    def answer(self, name: str, answer: Any) -> None:
        """What a function of `sweeprows` answers, or raises."""

        def answered(*_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.patch.setattr(sweep.sweeprows, name, answered)

    def sweep_runs(self, keys: Collection[str]) -> dict[str, RunRow]:
        self.asked += keys
        return {row.key: row for row in self.rows if row.key in keys}

    def sweep_unfinished(self) -> list[RunRow]:
        return list(self.rows)

    def sweep_mark(self, row: RunRow) -> bool:
        if row.job_name in self.broken:
            raise KeyError("a DAG of an older version")
        return True

    def job(self, name: str, **changes: Any) -> RunRow:
        """A job whose runner has gone without a word."""
        row = self.add(name, **changes)
        left = record(Status.ACTIVE, handle=Handle(state="submitted", engine="engine-1"))
        self.step(row, "train", "failed", left, end_date=START)
        return row


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow(monkeypatch)


class TestChores:
    @pytest.mark.parametrize("error", [DatabaseAway("Airflow's database was away."), OSError("full"), KeyError("x")])
    def test_one_that_fails_keeps_no_other(self, airflow: Airflow, tmp_path: Path, error: Exception) -> None:
        """Whatever it is: Airflow raises much while it deletes a DAG, or reads one of an older version."""
        make_directory(StreamId("default", "2NEpo7TZRRrLZSi2U", 0, 0).path(tmp_path), tmp_path)
        for name in ("unfinished_with_intent", "unused_shapes"):
            airflow.answer(name, error)
        assert asyncio.run(SweepOffice(tmp_path).chores()) == {"runs_removed": 2, "logs_removed": 1}
        assert list((tmp_path / "logs" / "default").iterdir()) == []

    def test_one_cancel_that_cannot_be_ended_keeps_no_other(self, airflow: Airflow, tmp_path: Path) -> None:
        intent = Intent(action=Action.CANCEL, by="ann", at=START).model_dump(mode="json")
        for name in ("first", "second"):
            airflow.write_value(airflow.job(name, state="running"), ["train"], INTENT_KEY, intent)
        airflow.broken = {"first"}
        office = SweepOffice(tmp_path, lambda: START + timedelta(days=1))
        assert asyncio.run(office.chores())["cancels_ended"] == 1

    def test_one_dag_that_cannot_be_removed_keeps_no_other(self, airflow: Airflow, tmp_path: Path) -> None:
        def remove(dag_id: str) -> bool:
            if dag_id == "first":
                raise RuntimeError("The DAG has runs at work")
            return True

        airflow.answer("stale_dags", ["first", "second"])
        airflow.patch.setattr(sweep.sweeprows, "remove_stale_dag", remove)
        assert asyncio.run(SweepOffice(tmp_path).chores())["dags_removed"] == 1


class TestLogs:
    """A look through the logs of all jobs takes long where there are many."""

    KEY = "2NEpo7TZRRrLZSi2U"

    def sweep(self, root: Path, moment: datetime, *, thorough: bool = False) -> int:
        make_directory(StreamId("default", self.KEY, 0, 0).path(root), root)
        done = asyncio.run(SweepOffice(root, lambda: moment).chores(thorough=thorough))
        return done.get("logs_removed", 0)

    def test_they_are_looked_through_once_an_hour(self, airflow: Airflow, tmp_path: Path) -> None:
        moments = [START + timedelta(minutes=minutes) for minutes in (0, 1, 59, 60, 61)]
        assert [self.sweep(tmp_path, moment) for moment in moments] == [1, 0, 0, 1, 0]
        assert airflow.asked == [self.KEY] * 2

    def test_and_whenever_somebody_wants_it(self, airflow: Airflow, tmp_path: Path) -> None:
        assert [self.sweep(tmp_path, START, thorough=True) for _ in range(2)] == [1, 1]

    @pytest.mark.parametrize("text", ["", "yesterday", "2026-12-01", "2027-01-01T00:00:00+00:00"])
    def test_a_time_that_cannot_be_is_none(self, airflow: Airflow, tmp_path: Path, text: str) -> None:
        (tmp_path / "logs.swept").write_text(text)
        assert [self.sweep(tmp_path, START) for _ in range(2)] == [1, 0]

    def test_what_was_not_done_is_done_by_the_next(self, airflow: Airflow, tmp_path: Path) -> None:
        airflow.answer("runs_with", DatabaseAway("Airflow's database was away."))
        assert self.sweep(tmp_path, START) == 0
        airflow.patch.setattr(sweep.sweeprows, "runs_with", airflow.sweep_runs)
        assert self.sweep(tmp_path, START) == 1

    def test_only_those_of_jobs_that_are_gone(self, airflow: Airflow, tmp_path: Path) -> None:
        stays, deleted = airflow.job("stays"), airflow.job("deleted")
        airflow.write_value(deleted, ["train"], DELETED_KEY, {"by": "ann"})
        for row in (stays, deleted):
            make_directory(StreamId("default", row.key, 0, 0).path(tmp_path), tmp_path)
        assert self.sweep(tmp_path, START) == 2
        assert [path.name for path in (tmp_path / "logs" / "default").iterdir()] == [stays.key]

    def test_many_are_looked_up_in_parts(
        self, airflow: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(oldlogs, "_AT_ONCE", 2)
        keys = {names.run_key("dag", f"job-{number}", START) for number in range(5)}
        for key in keys:
            make_directory(StreamId("default", key, 0, 0).path(tmp_path), tmp_path)
        assert self.sweep(tmp_path, START) == 6
        assert set(airflow.asked) == {*keys, self.KEY}


class TestAnswers:
    """What is wrong with one job keeps no other from being swept."""

    LATER = START + timedelta(minutes=5)

    @pytest.fixture
    def jobs(self, airflow: Airflow) -> list[RunRow]:
        return [airflow.job(name, state="failed", end_date=START) for name in ("first", "second")]

    def test_a_job_that_cannot_be_judged_is_left_alone(
        self, airflow: Airflow, tmp_path: Path, jobs: list[RunRow]
    ) -> None:
        def judge(asked: AskedJob, *more: Any) -> JobStanding:
            if asked.run_id == "first":
                raise KeyError("x")
            return standing_of(asked, *more)

        airflow.patch.setattr(sweep, "standing_of", judge)
        workload = AskedWorkload(step="train", generation=0, start=0)
        asked = [
            AskedJob(workspace="default", run_id=name, run_key=row.key, workloads=[workload])
            for name, row in zip(("first", "second"), jobs, strict=True)
        ]
        first, second = SweepOffice(tmp_path, lambda: self.LATER).standings(asked)
        assert (first.hold, [each.hold for each in first.workloads]) == (Hold.LIVE, [Hold.LIVE])
        assert (second.hold, [each.hold for each in second.workloads]) == (Hold.OVER, [Hold.OVER])

    @pytest.mark.parametrize("error", [Unavailable("Job 'first' could not be changed for 30 s"), KeyError("x")])
    def test_an_ending_that_cannot_be_written_keeps_no_other(
        self, airflow: Airflow, tmp_path: Path, jobs: list[RunRow], error: Exception
    ) -> None:
        def lock(workspace: str, name: str, _: Path) -> AbstractAsyncContextManager[None]:
            if name == "first":
                raise error
            return airflow.name_lock(workspace, name)

        airflow.patch.setattr(sweep, "name_lock", lock)
        endings = [Ending.of(WorkloadKey("default", row.run_id, row.key, "train", 0, 0), 3, None, {}) for row in jobs]
        assert asyncio.run(SweepOffice(tmp_path, lambda: self.LATER).settle(endings)) == 1
        assert [verdict_key(0) in {key for _, key in airflow.states[row.pk].values} for row in jobs] == [False, True]
