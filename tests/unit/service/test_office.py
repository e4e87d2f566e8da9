"""Whom the sweep's office serves, and that one chore that fails keeps no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemo_airflow_provider import installation
from nemo_airflow_provider.errors import Conflict
from nemo_airflow_provider.logs.layout import StreamId, make_directory
from nemo_airflow_provider.service import sweep
from nemo_airflow_provider.service.away import DatabaseAway
from nemo_airflow_provider.service.sweep import SweepOffice


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


def test_one_chore_that_fails_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> int:
        raise DatabaseAway("Airflow's database was away.")

    make_directory(StreamId("default", "2NEpo7TZRRrLZSi2U", 0, 0).path(tmp_path), tmp_path)
    monkeypatch.setattr(sweep.sweeprows, "unfinished_with_intent", away)
    monkeypatch.setattr(sweep.sweeprows, "remove_deleted_runs", lambda _: 2)
    monkeypatch.setattr(sweep.sweeprows, "remove_old_runs", lambda *_: 0)
    monkeypatch.setattr(sweep.sweeprows, "unused_shapes", away)
    monkeypatch.setattr(sweep.sweeprows, "stale_dags", list)
    monkeypatch.setattr(sweep.sweeprows, "runs_with", lambda _: {})
    assert asyncio.run(SweepOffice(tmp_path).chores()) == {"runs_removed": 2, "logs_removed": 1}
    assert list((tmp_path / "logs" / "default").iterdir()) == []
