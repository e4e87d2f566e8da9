"""The operator runs jobs on another jobs API: upstream's server, and ours, which is this very Airflow."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import pytest

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone.component import Component
from tests.e2e.lab import JOBS, Job, Lab, counting, numbered, polite, python, step
from tests.stack.airflow import wait_until
from tests.stack.upstream import upstream_server

TASK = "train"
REPEATED = re.compile(r"Lines (\d+) to (\d+) were being written")


@dataclass
class Remote:
    """A server of jobs, and the DAG of this Airflow whose runs make jobs there."""

    lab: Lab
    kind: str
    http: httpx.Client
    server: Component | None = None

    def run(self, *steps: dict[str, Any], name: str | None = None) -> Run:
        """Start a run of the DAG, which makes one job."""
        run_id = self.lab.name("remote")
        conf = {"job": {"platform_spec": {"steps": list(steps)}}, "name": name}
        # The DAG may not have been parsed yet.
        path = f"/api/v2/dags/remote_{self.kind}/dagRuns"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        wait_until(lambda: self.lab.http.post(path, json=body).status_code in (200, 409), 60, "the DAG")
        return Run(self, run_id)


@dataclass
class Run:
    """One run of the DAG."""

    remote: Remote
    run_id: str

    @property
    def path(self) -> str:
        return f"/dags/remote_{self.remote.kind}/dagRuns/{self.run_id}"

    def describe(self) -> str:
        """For the report of a failed test."""
        return "\n".join(f"try {number}: {self.events(number)[-40:]}" for number in self.tries())

    def tries(self) -> range:
        """Their numbers. Airflow itself may lose one before it has begun, on a machine that is busy."""
        return range(1, self.task()["try_number"] + 1)

    def all_events(self) -> list[str]:
        """The texts of the logs of all tries."""
        return [event for number in self.tries() for event in self.events(number)]

    def task(self) -> dict[str, Any]:
        """The task instance."""
        found: dict[str, Any] = self.remote.lab.airflow("GET", f"{self.path}/taskInstances/{TASK}")
        return found

    def wait(self, *states: str, timeout_seconds: float = 90) -> dict[str, Any]:
        """The task instance once it is in one of the states."""

        def look() -> dict[str, Any] | None:
            task = self.task()
            assert task["state"] not in {"success", "failed"} - set(states), f"{task['state']}\n{self.describe()}"
            return task if task["state"] in states else None

        found = wait_until(look, timeout_seconds, f"{self.run_id} to be {states}")
        assert found
        return found

    def record(self) -> dict[str, Any]:
        """What the task remembers of its job."""
        answer = self.remote.lab.http.get(f"/api/v2{self.path}/taskInstances/{TASK}/state-store/nemo_job")
        return answer.json()["value"] if answer.status_code == 200 else {}

    def wait_submitted(self) -> dict[str, Any]:
        """The record once the job is known."""
        found = wait_until(lambda: self.record() if self.record().get("id") else None, 60, "the job")
        assert found
        return found

    def wait_written(self, lines: int) -> None:
        """Return when so many lines are in the task log."""
        wait_until(lambda: (self.record().get("position") or {}).get("given", 0) >= lines, 60, f"{lines} lines")

    def events(self, attempt: int = 1) -> list[str]:
        """The texts of the log of a try."""
        entries = self.remote.lab.airflow("GET", f"{self.path}/taskInstances/{TASK}/logs/{attempt}", full_content=True)[
            "content"
        ]
        return [str(entry["event"]) for entry in entries]

    def lines(self, attempt: int = 1) -> list[str]:
        """The job's lines in the log of a try."""
        return [event for event in self.events(attempt) if event.startswith(("line ", "the end "))]

    @cached_property
    def job_path(self) -> str:
        """The job's URL on the server."""
        return f"{JOBS}/{self.wait_submitted()['name']}"

    def job(self, path: str = "") -> dict[str, Any]:
        """The job, or something below it."""
        answer = self.remote.http.get(self.job_path + path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait_job(self, status: str) -> None:
        """Return when the job has this status."""
        wait_until(lambda: self.job()["status"] == status, 60, f"{self.job_path} to be {status}")

    def messages(self) -> list[str]:
        """The log as the server has it."""
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.remote.http.get(f"{self.job_path}/logs", params={"limit": 1000, **cursor}).json()
            found += [row["message"] for row in page["data"]]
            if page["next_page"] is None:
                return found
            cursor = {"page_cursor": page["next_page"]}

    def mark(self, state: str) -> None:
        """Do as a person who marks the task."""
        self.remote.lab.airflow("PATCH", f"{self.path}/taskInstances/{TASK}", {"new_state": state})

    def kill(self) -> None:
        """SIGKILL the task's process."""
        found = self.remote.lab.worker_of(self.task()["id"])
        assert found, "the task runs"
        processes.end(lambda: [found[1]] if found[1] in processes.living() else [])


def connect(lab: Lab, kind: str, host: str, **fields: Any) -> dict[str, Any]:
    body = {"connection_id": f"jobs_{kind}", "conn_type": "nemo_jobs", "host": host, **fields}
    lab.airflow("POST", "/connections", body)
    return body


@pytest.fixture(scope="module")
def ours(lab: Lab) -> Remote:
    connect(lab, "ours", lab.stack.url)
    return Remote(lab, "ours", lab.http)


@pytest.fixture(scope="module")
def upstream(lab: Lab, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with (
        upstream_server(tmp_path_factory.mktemp("upstream"), upstream_nemo) as (url, server),
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        connect(lab, "upstream", url)
        yield Remote(lab, "upstream", http, server)


@pytest.fixture(
    params=["ours", pytest.param("upstream", marks=pytest.mark.needs("upstream"))],
)
def remote(request: pytest.FixtureRequest) -> Remote:
    found: Remote = request.getfixturevalue(request.param)
    return found


def assert_each_once(run: Run, wanted: list[str]) -> None:
    """The logs of the tries together hold each line once, but for those that a try says it writes again."""
    known: list[str] = []
    for number in run.tries():
        lines = run.lines(number)
        announced = [match for event in run.events(number) if (match := REPEATED.match(event))]
        again = int(announced[0][2]) - int(announced[0][1]) + 1 if announced else 0
        repeated = max(size for size in range(again + 1) if known[len(known) - size :] == lines[:size])
        known += lines[repeated:]
    assert known == wanted


class TestBothServers:
    def test_a_killed_task_goes_on_with_its_job(self, remote: Remote) -> None:
        marks = remote.lab.marks()
        run = remote.run(step("work", counting(marks)))
        run.wait_written(20)
        before, killed = run.record(), run.task()["try_number"]
        run.kill()
        wait_until(lambda: run.task()["try_number"] == killed + 1, 60, "the next try")
        marks.enough.touch()
        run.wait("success")
        assert len(marks.pids) == 1
        after = run.record()
        assert (before["id"], before["mark"]) == (after["id"], after["mark"])
        assert any(event.startswith(f"Going on with job '{after['name']}'") for event in run.events(killed + 1))
        stored = run.messages()
        assert_each_once(run, stored)
        if remote.kind == "ours":  # upstream loses lines by itself
            assert stored == [*numbered(len(stored) - 1), f"the end {len(stored) - 1}"]

    def test_marked_as_failed_the_job_is_cancelled(self, remote: Remote) -> None:
        marks = remote.lab.marks()
        run = remote.run(step("work", polite(marks)))
        wait_until(lambda: marks.pids, 60, "the command")
        # While upstream still writes that it has started the command, it takes no cancel.
        run.wait_job("active")
        run.mark("failed")
        run.wait_job("cancelled")
        assert run.task()["state"] == "failed"
        wait_until(lambda: any("was asked to cancel" in event for event in run.all_events()), 60, "the log")

    def test_a_job_that_fails_is_not_tried_again(self, remote: Remote) -> None:
        marks = remote.lab.marks()
        run = remote.run(step("work", python(marks.code, "raise SystemExit(3)")))
        run.wait("failed")
        told = [event for event in run.all_events() if event.endswith("ended as error: Job exited with code 3")]
        assert len(told) == 1, run.describe()
        assert len(marks.pids) == 1

    def test_a_job_of_somebody_else_is_left_alone(self, remote: Remote) -> None:
        name = remote.lab.name("foreign")
        body = {"name": name, "source": "e2e", "spec": {}}
        body |= {"platform_spec": {"steps": [step("work", python("print('mine')"))]}}
        theirs = remote.http.post(JOBS, json=body).json()
        run = remote.run(step("work", python("print('not mine')")), name=name)
        run.wait("failed")
        told = [event for event in run.all_events() if "is not this task's, so it is left alone" in event]
        assert len(told) == 1, run.describe()
        found = remote.http.get(f"{JOBS}/{name}").json()
        assert (found["id"], found["platform_spec"]) == (theirs["id"], theirs["platform_spec"])


class TestOurs:
    def test_a_long_log_is_whole_and_in_order(self, ours: Remote) -> None:
        run = ours.run(step("first", python("for i in range(5000): print(f'line {i}')")))
        run.wait("success")
        assert_each_once(run, numbered(5000))
        xcom = ours.lab.airflow("GET", f"{run.path}/taskInstances/{TASK}/xcomEntries/return_value")["value"]
        job = run.job()
        assert xcom == {
            "id": job["id"],
            "name": job["name"],
            "workspace": "default",
            "status": "completed",
            "results": [],
        }
        assert re.fullmatch(r"remote-ours-train-[0-9a-f]{12}", job["name"])

    def test_cleared_it_makes_a_new_job(self, ours: Remote) -> None:
        name = ours.lab.name("given")
        run = ours.run(step("work", python("print('line 0')")), name=name)
        run.wait("success")
        first = run.record()
        # A run that is about to end would not start again.
        wait_until(lambda: ours.lab.airflow("GET", run.path)["state"] == "success", 60, "the end of the run")
        body = {"dag_run_id": run.run_id, "task_ids": [TASK], "dry_run": False, "only_failed": False}
        ours.lab.airflow("POST", f"/dags/remote_{ours.kind}/clearTaskInstances", {**body, "reset_dag_runs": True})
        wait_until(lambda: run.record()["name"] != name and run.record().get("id"), 90, "the second job")
        run.wait("success")
        second = run.record()
        assert (first["name"], second["name"]) == (name, f"{name}-2")
        assert [Job(ours.lab, one).wait("completed")["id"] for one in (name, f"{name}-2")] == [
            first["id"],
            second["id"],
        ]


class TestConnection:
    def test_the_button(self, lab: Lab, ours: Remote) -> None:
        def press(host: str, **fields: Any) -> tuple[bool, str]:
            body = {"connection_id": f"new_{secrets.token_hex(3)}", "conn_type": "nemo_jobs", "host": host, **fields}
            answer = lab.airflow("POST", "/connections/test", body)
            return answer["status"], answer["message"]

        url = lab.stack.url
        good, told = press(url)
        assert good and told.startswith(f"{url} is a jobs API with ")
        for host, fields, text in (
            (url, {"extra": '{"workspace": "nowhere"}'}, "Workspace 'nowhere' not found"),
            (url, {"password": "not-a-token"}, "Check its token"),
            (f"{url}/elsewhere", {}, "jobs API"),
            ("http://127.0.0.1:9", {}, "does not answer"),
        ):
            good, told = press(host, **fields)
            assert not good and text in told, told

    @pytest.mark.needs("upstream")
    def test_the_button_for_upstream(self, lab: Lab, upstream: Remote) -> None:
        url = str(upstream.http.base_url).rstrip("/")
        answer = lab.airflow(
            "POST", "/connections/test", {"connection_id": "new_up", "conn_type": "nemo_jobs", "host": url}
        )
        assert answer["status"], answer["message"]
