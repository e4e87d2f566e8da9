"""Runs of DAGs of Airflow's own operators, against which steps in containers are measured, and their logs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from bench.burst import posted

_ENDED = ("success", "failed")
_LIMIT_SECONDS = 300
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.5


class Run:
    """A run whose tasks, one after the other, each run the same command in a container of their own.

    :param dag: its DAG, whose tasks are `task-0`, `task-1` and so on
    """

    def __init__(self, client: httpx.Client, name: str, dag: str) -> None:
        self._client = client
        self._dag = f"/api/v2/dags/{dag}"
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


def seconds_to_succeed(client: httpx.Client, name: str, dag: str, command: list[str]) -> float:
    """From the call that starts a run to the first answer that says success, asked for every 20 ms."""
    run = Run(client, name, dag)
    run.wait_for_dag()  # connected before the clock starts
    began = time.perf_counter()
    with run.started(command):
        while not run.has_ended():
            time.sleep(_POLL_SECONDS)
        return time.perf_counter() - began


def _text(message: Any) -> str:
    return str(message["event"] if isinstance(message, dict) else message)
