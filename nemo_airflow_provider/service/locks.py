"""One lock per (workspace, job name), among all API servers of an installation.

Try-locks only, retried with `asyncio.sleep`: waiting inside a thread-pool thread can stop the API server, since the
holder needs a thread to let go. Where the database has no locks of its own (SQLite), names share a fixed set of lock
files. MySQL's branch has not been tried on a MySQL.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
from airflow.utils.session import create_session
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.errors import Unavailable

log = logging.getLogger(__name__)

#: Shapes' own space of names, which is no workspace's, and of lock files.
_SHAPES = "Shapes"

#: Holders in this process. Each keeps a database connection and needs another one for its work: when holders had
#: all of the pool (15 by default), each would wait for the others for ever.
_HOLDERS = threading.BoundedSemaphore(4)


@asynccontextmanager
async def name_lock(
    workspace: str, name: str, storage: Path, seconds: float = 30.0, *, shape: str | None = None
) -> AsyncIterator[None]:
    """Hold the lock of a job name.

    :param storage: where lock files are, for databases that have no locks of their own
    :param shape: a DAG id whose shape is kept from `shape_lock` meanwhile, with others that do the same
    :param seconds: how long to try
    :raises Unavailable: others hold it, or all of this server's `_HOLDERS`, all that time
    """
    deadline = time.monotonic() + seconds
    # What a thread has taken is on the stack before the thread ends: a request that is cancelled lets it go.
    held = ExitStack()
    try:
        while not await run_in_threadpool(_try_lock, held, workspace, name, storage, shape):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Job '{name}' in workspace '{workspace}' could not be changed for {seconds:g} s: other requests "
                    "create, cancel or delete it, or keep this API server busy. Try again."
                )
            await asyncio.sleep(random.uniform(0.01, 0.04))
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(_let_go, held)


@contextmanager
def shape_lock(dag_id: str, storage: Path) -> Iterator[bool]:
    """Try to have a shape for oneself; whether that is so."""
    with create_session(scoped=False) as session, ExitStack() as taken:
        yield _acquire(session, _digest(_SHAPES, dag_id), storage / "locks" / _SHAPES, taken)


def _try_lock(held: ExitStack, workspace: str, name: str, storage: Path, shape: str | None) -> bool:
    if not _HOLDERS.acquire(blocking=False):
        return False
    with ExitStack() as taken:
        taken.callback(_HOLDERS.release)
        # Not create_session() scoped to the thread: the next one in this thread would end it, and the lock with it.
        session = taken.enter_context(create_session(scoped=False))
        mine = _acquire(session, _digest(workspace, name), storage / "locks", taken)
        if mine and shape is not None:
            mine = _acquire(session, _digest(_SHAPES, shape), storage / "locks" / _SHAPES, taken, shared=True)
        if mine:
            held.push(taken.pop_all())
        return mine


def _let_go(held: ExitStack) -> None:
    try:
        held.close()
    except DBAPIError as error:
        # The lock went with its connection, and says nothing about what was done under it.
        log.warning("The lock of a job name was lost with its connection: %s", error.orig)


def _digest(space: str, name: str) -> bytes:
    return hashlib.sha256(f"{space}\n{name}".encode()).digest()


def _acquire(session: Session, digest: bytes, files: Path, taken: ExitStack, *, shared: bool = False) -> bool:
    """Try the lock; what lets it go is on the stack then, above the session that holds it.

    :param files: directory of lock files
    :param shared: with others that share it; on MySQL one after the other
    """
    dialect = session.get_bind().dialect.name
    if dialect == "postgresql":
        key = int.from_bytes(digest[:8], "big", signed=True)
        kind = "_shared" if shared else ""
        return bool(session.scalar(text(f"SELECT pg_try_advisory_xact_lock{kind}(:key)"), {"key": key}))
    if dialect == "mysql":
        named = {"key": f"nemo:{digest.hex()[:40]}"}
        if session.scalar(text("SELECT GET_LOCK(:key, 0)"), named) != 1:
            return False
        taken.callback(session.execute, text("SELECT RELEASE_LOCK(:key)"), named)
        return True
    # One of 256: a file for each name would stay for ever, as removing one that others wait for breaks the lock.
    return _lock_file(files / digest.hex()[:2], taken, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def _lock_file(path: Path, taken: ExitStack, kind: int) -> bool:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    taken.callback(os.close, descriptor)
    return True
