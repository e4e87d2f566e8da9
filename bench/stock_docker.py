"""What steps in containers are measured against: DAGs of Airflow's own DockerOperator, their runs and their logs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.burst import posted

#: How many tasks a run may have: a DAG for each.
TASKS = (1, 3)
_ENDED = ("success", "failed")
_LIMIT_SECONDS = 300
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.5

#: With `auto_remove`, as `docker run --rm` has it; everything else is what the operator does by itself.
_FILE = """
from airflow.providers.docker.operators.docker import DockerOperator
from airflow.sdk import DAG, chain

for count in {tasks}:
    with DAG("bench-docker-" + str(count), schedule=None, catchup=False):
        tasks = [
            DockerOperator(
                task_id="task-" + str(number),
                image={image!r},
                command="{{{{ dag_run.conf['command'] }}}}",
                network_mode={network!r},
                auto_remove="force",
            )
            for number in range(count)
        ]
        chain(*tasks)
"""


def write(dags: Path, image: str, network: str) -> None:
    """Put the DAGs into Airflow's folder of DAGs; the folder is created.

    :param image: of the containers
    :param network: of the containers
    """
    dags.mkdir(parents=True, exist_ok=True)
    (dags / "bench_stock_docker.py").write_text(_FILE.format(image=image, network=network, tasks=TASKS))


class Run:
    """A run whose tasks, one after the other, each run the same command in a container of their own.

    :param tasks: how many; one of `TASKS`
    """

    def __init__(self, client: httpx.Client, name: str, tasks: int) -> None:
        self._client = client
        self._dag = f"/api/v2/dags/bench-docker-{tasks}"
        self._name = name
        self._path = f"{self._dag}/dagRuns/{name}"
        #: Where the log goes on.
        self._token: str | None = None

    def wait_for_dag(self) -> None:
        """Until Airflow knows the DAG.

        :raises RuntimeError: it does not
        """
        deadline = time.monotonic() + _LIMIT_SECONDS
        while self._client.get(self._dag).status_code != httpx.codes.OK:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._dag} was not there after {_LIMIT_SECONDS} s")
            time.sleep(_LOOK_SECONDS)

    @contextmanager
    def started(self, command: list[str]) -> Iterator[None]:
        """Start it; it is deleted after the block."""
        body = {"dag_run_id": self._name, "logical_date": None, "conf": {"command": json.dumps(command)}}
        posted(self._client, f"{self._dag}/dagRuns", body)
        try:
            yield
        finally:
            if self._state() not in _ENDED:
                self._client.patch(self._path, json={"state": "failed"})
            self._client.delete(self._path)

    def has_ended(self) -> bool:
        """Whether it has.

        :raises RuntimeError: otherwise than with success
        """
        state = self._state()
        if state == "failed":
            raise RuntimeError(f"run {self._name} of {self._dag} failed")
        return state == "success"

    def new_lines(self) -> list[str]:
        """What its first task's log says beyond what was read before, as somebody reads on who watches it."""
        query = {"token": self._token} if self._token else {}
        answer = self._client.get(self._log, params=query, headers={"accept": "application/json"})
        if answer.status_code == httpx.codes.NOT_FOUND:  # the task has not begun
            return []
        page = answer.raise_for_status().json()
        self._token = page["continuation_token"] or self._token
        return [_text(each) for each in page["content"]]

    def all_lines(self) -> list[str]:
        """The whole log of its first task."""
        query, headers = {"full_content": "true"}, {"accept": "application/x-ndjson"}
        answer = self._client.get(self._log, params=query, headers=headers, timeout=120).raise_for_status()
        return [_text(json.loads(line)) for line in answer.text.splitlines()]

    @property
    def _log(self) -> str:
        return f"{self._path}/taskInstances/task-0/logs/1"

    def _state(self) -> str:
        return str(self._client.get(self._path).raise_for_status().json()["state"])


def seconds_to_succeed(client: httpx.Client, name: str, tasks: int, command: list[str]) -> float:
    """From the call that starts a run to the first answer that says success, asked for every 20 ms."""
    run = Run(client, name, tasks)
    run.wait_for_dag()  # connected before the clock starts
    began = time.perf_counter()
    with run.started(command):
        while not run.has_ended():
            time.sleep(_POLL_SECONDS)
        return time.perf_counter() - began


def _text(message: Any) -> str:
    return str(message["event"] if isinstance(message, dict) else message)
