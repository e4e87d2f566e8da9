"""A jobs server for faults that no real one commits on demand, and one task that uses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from nemo_airflow_provider.client.auth import LOGIN_PATH, Bounds, token_for
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.transport import Transport
from nemo_airflow_provider.remote.naming import Caller
from nemo_airflow_provider.remote.run import RemoteRun
from nemo_airflow_provider.remote.task import RemoteTask, Server
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, job
from tests.unit.runner.fakes import FakeHost

NAME = "given"
STEPS = [{"name": "work", "executor": {"provider": "subprocess", "command": ["true"]}}]
#: A time as upstream gives it, and as ours does.
NAIVE, AWARE = "2026-12-01T10:00:00.000001", "2026-12-01T10:00:00.000001+00:00"


def row(number: int, message: str | None = None) -> dict[str, Any]:
    """A line, with a time of its own."""
    return {
        "timestamp": f"2026-12-01T10:00:00.{number:06d}",
        "job": NAME,
        "job_step": "work",
        "job_task": "task-1",
        "message": f"line {number}" if message is None else message,
    }


class JobsServer(FakeServer):
    """Keeps one job a name; its log is pages by number, sorted by time, as upstream's is.

    `faults` are answered first, one a request; `on_status` may change things at each look.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.rows: list[dict[str, Any]] = []
        self.faults: dict[str, list[Answer]] = {}
        self.on_login: Callable[[], Answer] = lambda: Answer({"access_token": "fresh"}, 201)
        self.tail_fault: Answer | None = None
        self.cancelled: list[str] = []
        self.on_status: Callable[[dict[str, Any]], None] = lambda found: found.update(status="completed")
        self.results: list[dict[str, Any]] | None = None
        self.created_at = AWARE

    def _answer(self, seen: Seen) -> Answer:
        if seen.path == LOGIN_PATH:
            return self.on_login()
        rest = seen.path.removeprefix(JOBS).strip("/").split("/")
        verb = f"{seen.method} {rest[-1] if len(rest) > 1 else 'job' if rest[0] else 'jobs'}"
        if self.faults.get(verb):
            return self.faults[verb].pop(0)
        if verb == "POST jobs":
            return self.create(seen.json())
        found = self.jobs.get(rest[0])
        if found is None:
            return detail(404, f"Job '{rest[0]}' not found in workspace 'default'.")
        return self._of_job(verb, found, seen)

    def _of_job(self, verb: str, found: dict[str, Any], seen: Seen) -> Answer:
        if verb == "GET status":
            self.on_status(found)
            return Answer({**found, "steps": []})
        if verb == "GET logs" and "tail" in seen.query:
            if self.tail_fault is not None:
                return self.tail_fault
            last = self.rows[-int(seen.query["tail"][0]) :]
            return Answer({"data": last, "total": len(self.rows), "next_page": None, "prev_page": None})
        if verb == "GET logs":
            return self._page(int(seen.query["limit"][0]), int(seen.query.get("page_cursor", ["0"])[0]))
        if verb == "POST cancel":
            self.cancelled.append(found["name"])
            found["status"] = "cancelled"
        if verb == "GET results":
            return detail(404, "Not Found") if self.results is None else Answer({"data": self.results})
        if verb == "GET download":
            return Answer(b'{"loss": 0.5}')
        return Answer(found)

    def create(self, body: dict[str, Any]) -> Answer:
        """Make a job."""
        if body["name"] in self.jobs:
            return detail(409, f"Job '{body['name']}' already exists.", x_should_retry="false")
        made = job(body["name"], "active", created_at=self.created_at, custom_fields=body.get("custom_fields"))
        made["id"] = f"platform-job-{len(self.jobs)}"
        self.jobs[body["name"]] = made
        return Answer(made, 201)

    def _page(self, limit: int, number: int) -> Answer:
        rows = sorted(self.rows, key=lambda one: str(one["timestamp"]))
        page = rows[number * limit : (number + 1) * limit]
        more = len(rows) > (number + 1) * limit
        return Answer(
            {
                "data": page,
                "total": len(rows) if page else 0,
                "next_page": str(number + 1) if more else None,
                "prev_page": str(number - 1) if number else None,
            }
        )


class Clock:
    """Waits take no time but count."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class QuickHost(FakeHost):
    """A task process whose waits pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        wait = self.terminated.wait

        def pass_at_once(timeout: float | None = None) -> bool:
            if threading.current_thread() is not threading.main_thread():
                return wait(timeout)
            self.clock.seconds += timeout or 0.0
            return self.terminated.is_set()

        self.terminated.wait = pass_at_once  # type: ignore[method-assign]

    @property
    def messages(self) -> list[str]:
        return [line.message for line in self.lines]


def task_for(server: FakeServer, *, generation: int = 0, login: bool = False, **changes: Any) -> RemoteTask:
    """A task that runs the job `given`.

    :param login: whether it asks for a token first
    """

    def open_client(sleep: Callable[[float], None], bounds: Bounds) -> JobsClient:
        token = token_for(server.url, "ann", "secret", sleep=sleep, bounds=bounds) if login else None
        return JobsClient(transport=Transport(server.url, token=token, sleep=sleep))

    options: dict[str, Any] = {
        "caller": Caller("dag", "run", "train", -1, generation),
        "server": Server("there", server.url, "default", open_client),
        "job": {"platform_spec": {"steps": STEPS}},
        "name": NAME,
        "poll_interval_seconds": None,
        "timeout_seconds": None,
        "outage_seconds": 60.0,
        "cancel_on_kill": True,
        "results": (),
        "max_result_bytes": 1000,
        "max_log_lines": 10_000,
    }
    return RemoteTask(**options | changes)


def run(server: FakeServer, host: QuickHost, **changes: Any) -> Any:
    """One try."""
    return RemoteRun(task_for(server, **changes), host, host.clock).run()


def next_try(host: QuickHost) -> QuickHost:
    """A new process that finds what the last one stored."""
    following = QuickHost()
    following.values = dict(host.values)
    return following


def deadline(seconds: float = 30.0) -> float:
    """On the real clock."""
    return time.monotonic() + seconds
