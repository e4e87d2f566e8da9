"""One lock per (workspace, job name), among all API servers of an installation.

Try-locks only, retried with `asyncio.sleep`: waiting inside a thread-pool thread can stop the API server, since the
holder needs a thread to let go.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from airflow.utils.session import create_session
from sqlalchemy import text
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.errors import Unavailable

Release = Callable[[], None]


@asynccontextmanager
async def name_lock(workspace: str, name: str, storage: Path, seconds: float = 30.0) -> AsyncIterator[None]:
    """Hold the lock of a job name.

    :param storage: where lock files are, for databases that have no locks of their own
    :param seconds: how long to try
    :raises Unavailable: another creation of the same name holds it all that time
    """
    deadline = time.monotonic() + seconds
    while (release := await run_in_threadpool(_try_lock, workspace, name, storage)) is None:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"Another creation of job '{name}' in workspace '{workspace}' has not finished for {seconds:g} s. "
                "Try again."
            )
        await asyncio.sleep(random.uniform(0.01, 0.04))
    try:
        yield
    finally:
        await run_in_threadpool(release)


def _try_lock(workspace: str, name: str, storage: Path) -> Release | None:
    digest = hashlib.sha256(f"{workspace}\n{name}".encode()).digest()
    # Not create_session() scoped to the thread: the next one in this thread would end it, and the lock with it.
    session_scope = create_session(scoped=False)
    session = session_scope.__enter__()
    dialect = session.get_bind().dialect.name

    def close() -> None:
        session_scope.__exit__(None, None, None)

    if dialect == "postgresql":
        key = int.from_bytes(digest[:8], "big", signed=True)
        held = session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": key})
        return _kept(bool(held), close)
    if dialect == "mysql":
        return _mysql(session, f"nemo:{digest.hex()[:40]}", close)
    close()
    return _file_lock(storage / "locks" / digest.hex()[:32])


def _kept(held: bool, close: Release) -> Release | None:
    if held:
        return close
    close()
    return None


def _mysql(session: Session, key: str, close: Release) -> Release | None:
    if session.scalar(text("SELECT GET_LOCK(:key, 0)"), {"key": key}) != 1:
        close()
        return None

    def release() -> None:
        session.execute(text("SELECT RELEASE_LOCK(:key)"), {"key": key})
        close()

    return release


def _file_lock(path: Path) -> Release | None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return lambda: os.close(descriptor)
