"""The servers that are measured, started for the length of a block in a directory that is removed afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]
import sqlalchemy

from bench.jobs import PATH
from nemo_airflow_provider.standalone.component import Component
from tests.stack.airflow import AirflowStack
from tests.stack.database import fresh_database
from tests.stack.upstream import upstream_server

API_WORKERS = 2
MOST_CONNECTIONS = 200


class RunningSystem:
    """See `bench.registry.System`."""

    def __init__(self, url: str, nemo: str, server: Component, *, api_workers: int = 1) -> None:
        self.url = url
        self.nemo = nemo
        self._server = server
        self._api_workers = api_workers

    def client(self) -> AbstractContextManager[httpx.Client]:
        return self._connect()

    def _connect(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)

    def each_worker(self) -> EachWorker:
        return EachWorker(self.url, self.nemo, self._server, api_workers=self._api_workers)

    def api_megabytes(self) -> float:
        return sum(_resident_bytes(process) for process in self._server.members()) / 1e6


class EachWorker(RunningSystem):
    """Connects to one API worker after the other, so that few requests reach all of them."""

    def __init__(self, url: str, nemo: str, server: Component, *, api_workers: int) -> None:
        super().__init__(url, nemo, server, api_workers=api_workers)
        self._served: set[int] = set()

    def client(self) -> AbstractContextManager[httpx.Client]:
        """A connection to a worker whose turn it is; which worker takes a new connection, the system decides."""
        if len(self._served) == self._api_workers:
            self._served.clear()
        for _ in range(MOST_CONNECTIONS):
            client = self._connect()
            worker = self._worker_behind(client)
            if worker not in self._served:
                self._served.add(worker)
                return closing(client)
            client.close()
        raise RuntimeError(f"{MOST_CONNECTIONS} connections to {self.url} reached {len(self._served)} API workers only")

    def _worker_behind(self, client: httpx.Client) -> int:
        if self._api_workers == 1:
            return 0
        stream = client.get(PATH).extensions["network_stream"]
        port = stream.get_extra_info("client_addr")[1]
        for process in self._server.members():
            with suppress(psutil.Error):  # it has ended meanwhile
                if any(end.raddr and end.raddr.port == port for end in psutil.Process(process).net_connections("tcp")):
                    return process
        raise RuntimeError(f"no process of {self.url} has the connection from port {port}")


def _resident_bytes(process: int) -> int:
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended meanwhile
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def postgres_url() -> str | None:
    """`NEMO_TEST_POSTGRES`, else the server that libpq finds by itself, if it answers."""
    for url in (os.environ.get("NEMO_TEST_POSTGRES"), "postgresql+psycopg2:///postgres"):
        if not url:
            continue
        engine = sqlalchemy.create_engine(url)
        try:
            engine.connect().close()
        except sqlalchemy.exc.SQLAlchemyError:
            continue
        finally:
            engine.dispose()
        return url
    return None


def database_name(url: str | None) -> str:
    """What the report calls the database."""
    if url is None:
        return "sqlite"
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            return f"postgresql {connection.execute(sqlalchemy.text('SHOW server_version')).scalar_one()}"
    finally:
        engine.dispose()


@contextmanager
def ours(folder: Path, database: str | None) -> Iterator[RunningSystem]:
    """Airflow with the recommended settings, two API workers.

    :param database: URL of a Postgres in which a database is made; None: SQLite
    """
    with ExitStack() as resources:
        url = resources.enter_context(fresh_database(database)) if database else None
        stack = resources.enter_context(AirflowStack(folder / "home", database=url, api_workers=API_WORKERS))
        nemo = str(Path(sys.executable).with_name("nemo"))
        yield RunningSystem(stack.url, nemo, stack.server.components["api-server"], api_workers=API_WORKERS)


@contextmanager
def upstream(folder: Path, nemo: str) -> Iterator[RunningSystem]:
    """Upstream's own server without containers, on its SQLite file: it comes with no other database here.

    :param nemo: its executable, of an environment with `nemo-helix[services]`
    """
    with upstream_server(folder, nemo) as (url, server):
        yield RunningSystem(url, nemo, server)
