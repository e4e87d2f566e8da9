"""The servers that are measured, started for the length of a block in a directory that is removed afterwards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import sqlalchemy

from bench import cluster, engine, pausing, proc, stock, stock_docker, stock_kubernetes
from bench.jobs import PATH
from bench.registry import TaskMemory
from bench.tasks import Tasks
from nemo_airflow_provider.standalone import environment
from nemo_airflow_provider.standalone.component import Component
from tests.stack import kubernetes
from tests.stack.airflow import AirflowStack
from tests.stack.database import fresh_database
from tests.stack.upstream import upstream_server

API_WORKERS = 2
MOST_CONNECTIONS = 200
#: Of the executor, on Postgres: enough for the steps that `running` looks at.
SLOTS = 24
BURST, BURST_OF_UPSTREAM = 200, 20


class RunningSystem:
    """See `bench.registry.System`."""

    def __init__(
        self, url: str, nemo: str, server: Component, *, api_workers: int = 1, airflow: Tasks | None = None
    ) -> None:
        self.url = url
        self.nemo = nemo
        self._server = server
        self._api_workers = api_workers
        self._airflow = airflow

    def client(self) -> AbstractContextManager[httpx.Client]:
        return self._connect()

    def _connect(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)

    def each_worker(self) -> EachWorker:
        return EachWorker(self.url, self.nemo, self._server, api_workers=self._api_workers, airflow=self._airflow)

    @property
    def burst(self) -> int:
        """Fewer for upstream, which runs a few at a time."""
        return BURST if self._airflow else BURST_OF_UPSTREAM

    @property
    def slots(self) -> int:
        return self.tasks.slots

    @property
    def tasks(self) -> Tasks:
        """Where tasks run.

        :raises RuntimeError: it is no Airflow
        """
        if self._airflow is None:
            raise RuntimeError(f"{self.url} is no Airflow")
        return self._airflow

    def api_processor_seconds(self) -> float:
        return sum(map(proc.processor_seconds, self._server.members()))

    def task_processor_seconds(self) -> float:
        return self.tasks.processor_seconds()

    def api_log_size(self) -> int:
        return self._server.log.stat().st_size

    def task_requests(self, position: int) -> dict[str, int]:
        return proc.requests_below("/execution/", self._server.log, position)

    def task_megabytes(self) -> TaskMemory:
        return self.tasks.memory()

    def api_megabytes(self) -> float:
        return sum(map(proc.resident_bytes, self._server.members())) / 1e6


class EachWorker(RunningSystem):
    """Connects to one API worker after the other, so that few requests reach all of them."""

    def __init__(
        self, url: str, nemo: str, server: Component, *, api_workers: int, airflow: Tasks | None = None
    ) -> None:
        super().__init__(url, nemo, server, api_workers=api_workers, airflow=airflow)
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
def ours(folder: Path, database: str | None, slots: int | None = None) -> Iterator[RunningSystem]:
    """Airflow with the recommended settings, two API workers.

    :param database: URL of a Postgres in which a database is made; None: SQLite
    :param slots: tasks that it runs at once on Postgres; None: `SLOTS`
    """
    with ExitStack() as resources:
        url = resources.enter_context(fresh_database(database)) if database else None
        slots = (slots or SLOTS) if url else int(environment.SQLITE_DEFAULTS["AIRFLOW__CORE__PARALLELISM"])
        dags = folder / "home" / "dags"
        stock.write(dags)
        if engine.lacking() is None:
            stock_docker.write(dags, engine.IMAGE, engine.NETWORK)
        if cluster.lacking() is None:
            stock_kubernetes.write(dags, kubernetes.image(), cluster.NAMESPACE, cluster.CONNECTION)
        resources.enter_context(engine.prepared())
        resources.enter_context(cluster.prepared())
        stack = resources.enter_context(
            AirflowStack(
                folder / "home",
                database=url,
                api_workers=API_WORKERS,
                environ={
                    "AIRFLOW__CORE__PARALLELISM": str(slots),
                    "AIRFLOW__NEMO__PAUSE_HOLD_SECONDS": str(pausing.HOLD_SECONDS),
                    # Airflow's operators are imported by many tasks at once.
                    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
                }
                | cluster.environment(),
                profiles=json.dumps(_profiles(folder / "home")),
            )
        )
        nemo = str(Path(sys.executable).with_name("nemo"))
        server = stack.server.components["api-server"]
        yield RunningSystem(stack.url, nemo, server, api_workers=API_WORKERS, airflow=Tasks(stack, slots))


def _profiles(home: Path) -> dict[str, Any]:
    """The configuration file; a profile of an engine that is not there does no harm."""
    found = pausing.profiles(home)
    found["jobs"]["executors"].append(engine.profile())
    if cluster.lacking() is None:
        found["platform"]["runtime"] = "kubernetes"
        found["jobs"]["enable_subprocess_executor"] = True
        found["jobs"]["executors"].append(cluster.profile())
    return found


@contextmanager
def upstream(folder: Path, nemo: str) -> Iterator[RunningSystem]:
    """Upstream's own server without containers, on its SQLite file: it comes with no other database here.

    :param nemo: its executable, of an environment with `nemo-helix[services]`
    """
    with upstream_server(folder, nemo) as (url, server):
        yield RunningSystem(url, nemo, server)
