"""What the tests of whole jobs share: an Airflow, jobs in it, and what can be seen of them from outside."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx
import sqlalchemy

from nemo_airflow_provider import processes
from tests.stack import AirflowStack, docker, engines, kubernetes
from tests.stack.airflow import wait_until

JOBS = "/apis/jobs/v2/workspaces/default/jobs"
TERMINAL = ("completed", "error", "cancelled")

#: A pool without slots: what is put there waits until a test opens it.
GATE = "gate"

_PROFILES = """
platform: {{runtime: {runtime}}}
jobs:
  enable_subprocess_executor: true
  executor_defaults:
    subprocess: {{working_directory: {root}}}
    kubernetes_job: {built_in}
  executors:
    - {{provider: cpu, profile: default, backend: docker, config: {{{docker}, graceful_shutdown_timeout_seconds: 10}}}}
    - {{provider: cpu, profile: docker-limited, backend: docker,
       config: {{{docker}, graceful_shutdown_timeout_seconds: 1, ttl_seconds_active: 2}}}}
    - {{provider: cpu, profile: docker-freezing, backend: docker,
       config: {{{docker}, graceful_shutdown_timeout_seconds: 1, pause: freeze}}}}
    - {{provider: subprocess, profile: brief, backend: subprocess,
       config: {{working_directory: {root}, graceful_shutdown_timeout_seconds: 1}}}}
    - {{provider: subprocess, profile: limited, backend: subprocess,
       config: {{working_directory: {root}, graceful_shutdown_timeout_seconds: 1, ttl_seconds_active: 2}}}}
    - {{provider: subprocess, profile: freezing, backend: subprocess,
       config: {{working_directory: {root}, graceful_shutdown_timeout_seconds: 1, pause: freeze}}}}
    - {{provider: subprocess, profile: patient, backend: subprocess,
       config: {{working_directory: {root}, graceful_shutdown_timeout_seconds: 600}}}}
    - {{provider: subprocess, profile: gated, backend: subprocess,
       config: {{working_directory: {root}, airflow: {{pool: gate}}}}}}
{more}"""

R = TypeVar("R")


def profiles(home: Path) -> str:
    """The profiles of an Airflow's home; those of engines that are not there do no harm."""
    gates = {"volume_name": docker.GATES, "mount_path": docker.GATES_PATH, "allow_create_volume": True}
    storage = {
        "volume_name": "nemo-test",
        "volume_permissions_image": docker.IMAGE,
        "additional_volume_mounts": [gates],
    }
    shared = f"default_task_image: {docker.IMAGE}, storage: {json.dumps(storage)}"
    runtime, built_in, more = "none", {}, ""
    if not engines.missing("kubernetes"):
        runtime, built_in = "kubernetes", kubernetes.profile()
        more = "".join(f"    - {json.dumps(each)}\n" for each in _kubernetes_profiles())
    given = {"root": home / "workloads", "docker": shared, "built_in": json.dumps(built_in)}
    return _PROFILES.format(**given, runtime=runtime, more=more)


def _kubernetes_profiles() -> Iterator[dict[str, Any]]:
    """One for each way to the cluster."""
    limited = {"graceful_shutdown_timeout_seconds": 1, "ttl_seconds_active": 2}
    impatient = {"platform_retries": 0, "ttl_seconds_image_pull": 5}
    for name, config in {
        "kubernetes": kubernetes.profile(graceful_shutdown_timeout_seconds=10),
        "kubernetes-limited": kubernetes.profile(kubernetes.CONNECTION, **limited),
        "kubernetes-impatient": kubernetes.profile(**impatient),
    }.items():
        yield {"provider": "cpu", "profile": name, "backend": "kubernetes_job", "config": config}
    config = kubernetes.profile(kubernetes.CONNECTION)
    yield {"provider": "gpu", "profile": "kubernetes", "backend": "kubernetes_job", "config": config}


def in_parallel(calls: Iterable[Callable[[], R]]) -> list[R]:
    """Make all calls at once; their answers in order."""
    todo = list(calls)
    with ThreadPoolExecutor(len(todo)) as pool:
        return [future.result() for future in [pool.submit(call) for call in todo]]


def python(*lines: str) -> list[str]:
    """A command that runs these lines; output is unbuffered."""
    return [sys.executable, "-S", "-u", "-c", "\n".join(lines)]


class Marks:
    """A file to which each execution of a command adds its process id."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def code(self) -> str:
        """The line of code that leaves a mark."""
        return f"import os; open({str(self.path)!r}, 'a').write(f'{{os.getpid()}}\\n')"

    @property
    def pids(self) -> list[int]:
        """Process ids of the executions, in order."""
        return [int(line) for line in self.path.read_text().split()] if self.path.exists() else []

    @property
    def enough(self) -> Path:
        """A file that a `counting` command waits for."""
        return self.path.with_suffix(".enough")

    @property
    def told(self) -> Path:
        """A file that a `reluctant` command makes at SIGTERM."""
        return self.path.with_suffix(".told")


def counting(marks: Marks, *before: str) -> list[str]:
    """A command that prints `line 0`, `line 1` … one every 20 ms, and ends when it is told that this is enough.

    It ends by itself after ten minutes, with code 1. It tells on an earlier execution that still lives.

    :param before: lines of code that come first
    """
    return python(
        marks.code,
        "import os, sys, time",
        f"for pid in open({str(marks.path)!r}).read().split()[:-1]:",
        "    if os.path.exists(f'/proc/{pid}'): print('beside', pid)",
        *before,
        "for i in range(30_000):",
        "    print(f'line {i}')",
        "    time.sleep(0.02)",
        f"    if os.path.exists({str(marks.enough)!r}):",
        "        print('the end', i + 1)",
        "        sys.exit()",
        "sys.exit(1)",
    )


def reluctant(marks: Marks) -> list[str]:
    """A `counting` command that remembers a SIGTERM in `marks.told` and goes on, to the end that it is told."""
    remember = f"lambda *_: open({str(marks.told)!r}, 'a').close()"
    return counting(marks, "import signal", f"signal.signal(signal.SIGTERM, {remember})")


def numbered(lines: int) -> list[str]:
    """What a command that counts so many lines prints."""
    return [f"line {i}" for i in range(lines)]


def polite(marks: Marks, seconds: float = 60) -> list[str]:
    """A command that says `up`, works on, and at SIGTERM says `bye` and ends."""
    return python(
        marks.code,
        "import signal, sys, time",
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)))",
        "print('up')",
        f"time.sleep({seconds})",
    )


def deaf(marks: Marks) -> list[str]:
    """A command that does not listen to SIGTERM."""
    return python(
        marks.code,
        "import signal, time",
        "signal.signal(signal.SIGTERM, lambda *_: print('no'))",
        "print('up')",
        "while True: time.sleep(60)",
    )


def step(name: str, command: list[str], profile: str = "default") -> dict[str, Any]:
    """One step of a job body."""
    return {"name": name, "executor": {"provider": "subprocess", "profile": profile, "command": command}}


class Lab:
    """An Airflow for many tests, each with job names of its own."""

    def __init__(self, stack: AirflowStack) -> None:
        self.stack = stack
        self.http = stack.client(timeout=90)
        self.profiles = Path(stack.environ["NHX_CONFIG_FILE_PATH"])
        self._marks = stack.home / "marks"
        self._marks.mkdir()
        self.airflow("POST", "/pools", {"name": GATE, "slots": 0})

    def describe(self) -> str:
        """For the report of a failed test."""
        return self.stack.describe()

    def name(self, head: str) -> str:
        """A new job name."""
        return f"{head}-{secrets.token_hex(3)}"

    def marks(self) -> Marks:
        """A new mark file."""
        return Marks(self._marks / secrets.token_hex(6))

    def create(self, name: str, *steps: dict[str, Any]) -> httpx.Response:
        """Ask for a job."""
        body = {"name": name, "source": "e2e", "spec": {}, "platform_spec": {"steps": list(steps)}}
        return self.http.post(JOBS, json=body)

    def submit(self, head: str, *steps: dict[str, Any]) -> Job:
        """Create a job under a new name."""
        name = self.name(head)
        answer = self.create(name, *steps)
        assert answer.status_code == 201, answer.text
        return Job(self, name)

    def airflow(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Call Airflow's own API; it must agree."""
        answer = self.http.request(method, f"/api/v2{path}", json=body, params=query)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    @contextmanager
    def database(self) -> Iterator[sqlalchemy.Connection]:
        """A connection to Airflow's own database; each statement is a transaction unless one is begun."""
        # Where no database is given, Airflow makes one in its home.
        default = f"sqlite:///{self.stack.home}/airflow.db"
        url = self.stack.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", default)
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def worker_of(self, task_instance: str) -> tuple[int, int] | None:
        """Airflow's two processes of a task instance with this id: the one that supervises, and the task's own."""
        name = task_instance.encode()
        table = processes.living()
        mine = {pid for pid in self.stack.server.components["scheduler"].members() if name in _title(pid)}
        return next(((table[pid].parent, pid) for pid in mine if pid in table and table[pid].parent in mine), None)

    def open_gate(self, slots: int) -> None:
        """Give the gate's pool so many slots."""
        self.airflow("PATCH", f"/pools/{GATE}", {"pool": GATE, "slots": slots, "include_deferred": False})

    def runs(self, name: str) -> list[dict[str, Any]]:
        """Airflow's dag runs of a job name, those of deleted jobs too."""
        found = self.airflow("GET", "/dags/~/dagRuns", run_id_pattern=f"{name}%", limit=100)["dag_runs"]
        return [run for run in found if run["dag_run_id"].partition("~")[0] == name]


@dataclass(frozen=True)
class Job:
    """One job of a lab."""

    lab: Lab
    name: str

    @property
    def url(self) -> str:
        return f"{JOBS}/{self.name}"

    def get(self, path: str = "", **query: Any) -> dict[str, Any]:
        """The job, or something below it."""
        answer = self.lab.http.get(self.url + path, params=query)
        assert answer.status_code == 200, f"{answer.request.url}: {answer.status_code} {answer.text}"
        result: dict[str, Any] = answer.json()
        return result

    def wait(self, *statuses: str, timeout_seconds: float = 60) -> dict[str, Any]:
        """The job once it has one of the statuses; default: any terminal one."""
        wanted = statuses or TERMINAL

        def look() -> dict[str, Any] | None:
            job = self.get()
            if job["status"] in TERMINAL and job["status"] not in wanted:
                raise AssertionError(f"not {wanted}: {json.dumps(job, indent=1)}\n{self.messages()[-20:]}")
            return job if job["status"] in wanted else None

        try:
            found = wait_until(look, timeout_seconds, f"{self.name} to be {' or '.join(wanted)}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps(self.get(), indent=1)}") from error
        assert found
        return found

    def wait_for_line(self, text: str, timeout_seconds: float = 60) -> None:
        """Return when a line of this text is in the log."""
        wait_until(lambda: text in self.messages(), timeout_seconds, f"{text!r} in the log of {self.name}")

    def cancel(self) -> dict[str, Any]:
        answer = self.lab.http.post(f"{self.url}/cancel")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def pause(self) -> dict[str, Any]:
        return self._ask("pause")

    def resume(self) -> dict[str, Any]:
        return self._ask("resume")

    def _ask(self, verb: str) -> dict[str, Any]:
        answer = self.lab.http.post(f"{self.url}/{verb}")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def wait_parked(self, step: str, timeout_seconds: float = 60) -> None:
        """Return when the step's task has given its worker slot back."""
        wait_until(lambda: self.task(step)["state"] == "awaiting_input", timeout_seconds, f"{self.name} to be parked")

    def steps(self) -> list[dict[str, Any]]:
        """The steps of the status."""
        steps: list[dict[str, Any]] = self.get("/status")["steps"]
        return steps

    def rows(self, limit: int = 1000) -> Iterator[dict[str, Any]]:
        """The whole log, page by page."""
        cursor: dict[str, str] = {}
        while True:
            page = self.get("/logs", limit=limit, **cursor)
            yield from page["data"]
            if page["next_page"] is None:
                return
            cursor = {"page_cursor": page["next_page"]}

    def messages(self, limit: int = 1000) -> list[str]:
        """The texts of the whole log."""
        return [row["message"] for row in self.rows(limit)]

    # --- seen from Airflow ------------------------------------------------------------------------

    @cached_property
    def run_path(self) -> str:
        """Path of its dag run in Airflow's API."""
        run = self.lab.runs(self.name)[0]
        return f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}"

    def task(self, step: str) -> dict[str, Any]:
        """Airflow's task instance of a step."""
        task: dict[str, Any] = self.lab.airflow("GET", f"{self.run_path}/taskInstances/{step}")
        return task

    def task_log(self, step: str, attempt: int = 1) -> list[dict[str, Any]]:
        """Airflow's log of a try, from the first line on."""
        path = f"{self.run_path}/taskInstances/{step}/logs/{attempt}"
        entries: list[dict[str, Any]] = self.lab.airflow("GET", path, full_content=True)["content"]
        return entries

    # --- processes --------------------------------------------------------------------------------

    def workloads(self) -> list[int]:
        """Living processes that work in a directory of this job."""
        folder = f"{self.lab.stack.home / 'workloads' / 'default' / self.name}."  # and the run's key
        found = []
        for pid in processes.living():
            try:
                directory = Path("/proc", str(pid), "cwd").readlink()
            except OSError:
                continue  # ended
            if str(directory).startswith(folder):
                found.append(pid)
        return found

    def wait_gone(self, timeout_seconds: float = 60) -> None:
        """Return when nothing of the job's commands lives."""
        wait_until(lambda: not self.workloads(), timeout_seconds, f"the end of {self.name}'s processes")

    def worker(self, step: str) -> tuple[int, int] | None:
        """Airflow's two processes of a running try: the one that supervises, and the task's own."""
        return self.lab.worker_of(self.task(step)["id"])

    def kill_task(self, step: str) -> None:
        """SIGKILL the task's process as soon as there is one."""
        found = wait_until(lambda: self.worker(step), 60, f"the task process of {self.name}")
        assert found
        processes.end(lambda: [found[1]] if found[1] in processes.living() else [])


def _title(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""
