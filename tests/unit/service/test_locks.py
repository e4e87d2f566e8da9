"""A job name's lock on SQLite: exclusive, let go whatever happens, and in a fixed set of files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.service import locks


class Database:
    """A database, its session and its engine: as much of them as the lock uses.

    :param opened: how many sessions are open
    :param lost: whether their connections are gone when they are closed
    """

    def __init__(self) -> None:
        self.name = "sqlite"
        self.opened = 0
        self.lost = False

    @contextmanager
    def session(self, scoped: bool) -> Iterator[Database]:
        assert not scoped
        self.opened += 1
        try:
            yield self
        finally:
            self.opened -= 1
        if self.lost:
            raise OperationalError("COMMIT", {}, Exception("gone"), connection_invalidated=True)

    def get_bind(self) -> Database:
        return self

    @property
    def dialect(self) -> Database:
        return self

    def scalar(self, *_: Any) -> Any:
        raise OSError("the database is away")


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    made = Database()
    monkeypatch.setattr(locks, "create_session", made.session)
    return made


async def take(name: str, storage: Path) -> bool:
    """Whether a lock can be had at once."""
    try:
        async with locks.name_lock("default", name, storage, seconds=0):
            return True
    except Unavailable:
        return False


def test_it_is_exclusive_until_left(database: Database, tmp_path: Path) -> None:
    async def play() -> None:
        async with locks.name_lock("default", "job-1", tmp_path):
            assert not await take("job-1", tmp_path)
            assert await take("job-2", tmp_path)
        assert await take("job-1", tmp_path)

    asyncio.run(play())
    assert database.opened == 0


def test_one_that_went_with_its_connection_does_not_fail_what_was_done(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.lost = True
    for _ in range(20):  # more than there are places
        assert asyncio.run(take("job-1", tmp_path))
    assert caplog.messages == ["The lock of a job name was lost with its connection: gone"] * 20


def test_lock_files_do_not_grow_with_the_jobs(database: Database, tmp_path: Path) -> None:
    async def play() -> None:
        for number in range(600):
            assert await take(f"job-{number}", tmp_path)

    asyncio.run(play())
    assert 200 < len(list((tmp_path / "locks").iterdir())) <= 256


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_a_database_that_fails_keeps_neither_session_nor_place(
    database: Database, tmp_path: Path, dialect: str
) -> None:
    database.name = dialect

    async def play() -> None:
        for _ in range(20):  # more than there are places
            with pytest.raises(OSError, match="the database is away"):
                await take("job-1", tmp_path)

    asyncio.run(play())
    assert database.opened == 0


class TestShapes:
    def test_who_makes_a_job_keeps_its_shape(self, database: Database, tmp_path: Path) -> None:
        async def play() -> None:
            async with (
                locks.name_lock("default", "job-1", tmp_path, shape="nemo.default.a.0"),
                locks.name_lock("default", "job-2", tmp_path, shape="nemo.default.a.0"),
            ):
                with locks.shape_lock("nemo.default.a.0", tmp_path) as mine:
                    assert not mine
                with locks.shape_lock("nemo.default.b.0", tmp_path) as mine:
                    assert mine
            with locks.shape_lock("nemo.default.a.0", tmp_path) as mine:
                assert mine

        asyncio.run(play())
        assert database.opened == 0

    def test_a_shape_in_retirement_is_waited_for(self, database: Database, tmp_path: Path) -> None:
        async def taken(shape: str) -> bool:
            try:
                async with locks.name_lock("default", "job-1", tmp_path, seconds=0, shape=shape):
                    return True
            except Unavailable:
                return False

        with locks.shape_lock("nemo.default.a.0", tmp_path) as mine:
            assert mine
            assert not asyncio.run(taken("nemo.default.a.0"))
            assert asyncio.run(taken("nemo.default.b.0"))
        assert asyncio.run(taken("nemo.default.a.0"))
