"""Jobs over plain HTTP: short bodies, and waiting for what happens to them."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import httpx

from tests.stack.airflow import wait_until

API = "/apis/jobs/v2"
TERMINAL = {"completed", "error", "cancelled"}

#: A step for a job that must still be there after any other call of a test.
LONG = "echo begun; trap 'echo stopping; exit 3' TERM; sleep 300 & wait"

_numbers = itertools.count()


def fresh(prefix: str = "wire") -> str:
    """A job name that no other test uses."""
    return f"{prefix}-{next(_numbers)}"


def step(name: str, script: str, **more: Any) -> dict[str, Any]:
    """A step that runs a shell script."""
    return {
        "name": name,
        "executor": {"provider": "subprocess", "command": ["sh", "-c", script]},
        **more,
    }


def body(name: str | None, *scripts: str, **fields: Any) -> dict[str, Any]:
    """A create body whose steps are called `one`, `two`, `three`, so that most jobs share a shape.

    :param fields: more keys, or others instead
    """
    steps = [step(label, script) for label, script in zip(("one", "two", "three"), scripts, strict=False)]
    named = {} if name is None else {"name": name}
    return {**named, "source": "wire", "spec": {}, "platform_spec": {"steps": steps}, **fields}


class Jobs:
    """The jobs of one workspace, for one caller."""

    def __init__(self, http: httpx.Client, workspace: str = "default") -> None:
        self.http = http
        self.workspace = workspace

    def url(self, *parts: str) -> str:
        """`…/jobs/<parts>`, each part quoted."""
        return "/".join([f"{API}/workspaces/{self.workspace}/jobs", *(quote(part, safe="") for part in parts)])

    def get(self, *parts: str, **query: Any) -> httpx.Response:
        return self.http.get(self.url(*parts), params=query)

    def post(self, content: object) -> httpx.Response:
        return self.http.post(self.url(), json=content)

    def create(self, name: str | None, *scripts: str, **fields: Any) -> dict[str, Any]:
        return answered(self.post(body(name, *scripts, **fields)), 201)

    def job(self, name: str) -> dict[str, Any]:
        return answered(self.get(name))

    def status(self, name: str) -> dict[str, Any]:
        return answered(self.get(name, "status"))

    def wait(self, name: str, *statuses: str, timeout_seconds: float = 60) -> dict[str, Any]:
        """The job's status once it is one of these; any other end fails the test."""

        def look() -> dict[str, Any] | None:
            seen = self.status(name)
            assert seen["status"] in statuses or seen["status"] not in TERMINAL, seen
            return seen if seen["status"] in statuses else None

        found = wait_until(look, timeout_seconds, f"{name} to be {' or '.join(statuses)}")
        assert found
        return found

    def wait_for_lines(self, name: str, count: int, timeout_seconds: float = 60) -> list[str]:
        """The job's log once it has that many lines."""

        def look() -> list[str] | None:
            lines = self.lines(name, limit=1000)
            return lines if len(lines) >= count else None

        found = wait_until(look, timeout_seconds, f"{count} lines of {name}")
        assert found
        return found

    def run(self, name: str, *scripts: str, **fields: Any) -> dict[str, Any]:
        """Create a job and wait until it has completed."""
        self.create(name, *scripts, **fields)
        return self.wait(name, "completed")

    def cancel(self, name: str) -> dict[str, Any]:
        return answered(self.http.post(self.url(name, "cancel")))

    def delete(self, name: str) -> None:
        answer = self.http.delete(self.url(name))
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def list(self, **query: Any) -> dict[str, Any]:
        return answered(self.get(**query))

    def log(self, name: str, **query: Any) -> dict[str, Any]:
        return answered(self.get(name, "logs", **query))

    def lines(self, name: str, **query: Any) -> list[str]:
        return [row["message"] for row in self.log(name, **query)["data"]]


def answered(response: httpx.Response, status: int = 200) -> Any:
    """The JSON of an answer that must have this status."""
    assert response.status_code == status, f"{response.request.method} {response.request.url}: {response.text}"
    assert response.headers["content-type"] == "application/json"
    return response.json()


def refused(response: httpx.Response, status: int) -> Any:
    """The `detail` of a refusal."""
    content = answered(response, status)
    assert list(content) == ["detail"]
    if status == 409:
        assert response.headers["x-should-retry"] == "false"
    return content["detail"]
