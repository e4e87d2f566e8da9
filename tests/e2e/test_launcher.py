"""The local launcher as a person meets it: output, exit code, and nothing left afterwards."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment, lock
from nemo_airflow_provider.standalone.restarts import MOST
from nemo_airflow_provider.standalone.server import READY_PATH, TASKS_END_SECONDS
from tests.stack.airflow import FOREIGN, AirflowStack, processes_at, wait_until
from tests.unit.cli.fake_server import FakeServer, detail

#: A task that does not listen, with a child that has left its session, process group and parent.
STUBBORN_DAG = """
import signal, subprocess, time
from airflow.sdk import dag, task

@dag(schedule=None)
def stubborn():
    @task
    def wait():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        loop = "trap : TERM; echo up > {home}/detached; while :; do sleep 1; done"
        subprocess.run(f"setsid sh -c '{loop}' &", shell=True)
        time.sleep(600)
    wait()

stubborn()
"""


#: An ordinary task bears that the API server is away as long as a busy machine takes to start it again: three
#: heartbeats that fail, Airflow's default, end it.
#: And no sweep begins while these tests end the parts of Airflow: it would wait for an API server that is gone.
_SETTINGS = {"AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "1000", "AIRFLOW__NEMO__SWEEP_SECONDS": "0"}


class Launcher:
    """A launcher in the background, with its output in a file."""

    def __init__(self, folder: Path, *arguments: str, home: Path | None = None) -> None:
        self.home = home or folder / "home"
        self.output = folder / "output.txt"
        self._seen: set[int] = set()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        command = [sys.executable, "-m", "nemo_airflow_provider.standalone", *arguments]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=clean | _SETTINGS | {"AIRFLOW_HOME": str(self.home)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.output.read_text()

    def wait(self, timeout_seconds: float) -> int:
        return self.process.wait(timeout_seconds)

    def wait_for(self, pattern: str, timeout_seconds: float = 90) -> re.Match[str]:
        def look() -> re.Match[str] | None:
            assert self.process.poll() is None or re.search(pattern, self.text()), self.text()
            return re.search(pattern, self.text())

        found = wait_until(look, timeout_seconds, f"{pattern!r} in the launcher's output")
        assert found
        return found

    def child(self, name: str) -> int:
        """Process id of a component, once it is there."""

        def look() -> int | None:
            table = processes.living()
            own = (pid for pid, process in table.items() if process.parent == self.process.pid)
            return next((pid for pid in own if name in processes.title(pid)), None)

        found = wait_until(look, 60, f"{name} below {self.process.pid}")
        assert found
        return found

    def kill_for_good(self, name: str) -> None:
        """SIGKILL a component until it is not started again any more."""
        for number in range(1, MOST + 1):
            os.kill(self.child(name), signal.SIGKILL)
            self.wait_for(rf"The {name} was ended by SIGKILL and is started again in [0-9]+ s \({number} of", 180)
        os.kill(self.child(name), signal.SIGKILL)

    def everything(self) -> set[int]:
        """Every living process that has to do with it, or had when this was asked before."""
        self._seen |= {*processes.descendants(self.process.pid), *processes_at(self.home)}
        self._seen &= set(processes.living()) - {self.process.pid}
        return set(self._seen)


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[list[Launcher]]:
    started: list[Launcher] = []
    yield started
    for launcher in started:
        left = launcher.everything()
        launcher.process.kill()
        launcher.wait(10)
        processes.end(lambda: left & set(processes.living()))  # noqa: B023 (called in this round)


@pytest.fixture
def serving(tmp_path: Path, launchers: list[Launcher]) -> Launcher:
    """A launcher that is ready, with the stubborn task running in it."""
    environment.prepare_home(tmp_path / "home")
    (tmp_path / "home" / "dags" / "stubborn.py").write_text(STUBBORN_DAG.replace("{home}", str(tmp_path / "home")))
    launcher = Launcher(tmp_path, "serve", "--port", str(environment.free_port()))
    launchers.append(launcher)
    url = launcher.wait_for(r"Ready after .*?(http://\S+)")[1]
    with httpx.Client(base_url=url, timeout=30) as client:
        path = "/api/v2/dags/stubborn/dagRuns"
        wait_until(lambda: client.get("/api/v2/dags/stubborn").status_code == 200, 60, "the test's DAG")
        # SQLite refuses a write while another part of Airflow is at one for long, as on a busy disk.
        wait_until(lambda: client.post(path, json={"logical_date": None}).status_code == 200, 120, "the test's run")
    wait_until((launcher.home / "detached").exists, 180, "the detached process")
    return launcher


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).is_success
    except httpx.TransportError:
        return False


def gone(pids: set[int]) -> bool:
    return not pids & set(processes.living())


def run_states(client: httpx.Client) -> list[str]:
    return [run["state"] for run in client.get("/api/v2/dags/stubborn/dagRuns").json()["dag_runs"]]


def assert_one_signal_ends(launcher: Launcher, everything: set[int]) -> None:
    launcher.process.send_signal(signal.SIGTERM)
    assert launcher.wait(30) == 0, launcher.text()
    assert gone(everything)


class TestServe:
    def test_one_signal_ends_it_with_every_descendant(self, serving: Launcher) -> None:
        everything = serving.everything()
        assert len(everything) > 4
        assert_one_signal_ends(serving, everything)

    def test_a_second_ctrl_c_does_not_wait(self, serving: Launcher) -> None:
        everything = serving.everything()
        serving.process.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two signals at the same moment are one
        serving.process.send_signal(signal.SIGINT)
        assert serving.wait(TASKS_END_SECONDS) == 0
        assert gone(everything)

    def test_whatever_ends_is_started_again_and_still_one_signal_ends_all(self, serving: Launcher) -> None:
        url = serving.wait_for(r"Ready after .*?(http://\S+)")[1]
        everything = serving.everything()
        # The API server calls its process otherwise; its workers outlive it, and hold its port.
        for name, its_title in (
            ("scheduler",) * 2,
            ("dag-processor",) * 2,
            ("triggerer",) * 2,
            ("api-server", "api_server"),
        ):
            os.kill(serving.child(its_title), signal.SIGKILL)
            serving.wait_for(rf"The {name} was ended by SIGKILL and is started again in 1 s \(1 of")
        serving.child("api_server")  # the new one: until then workers of the old one may answer
        with httpx.Client(base_url=url, timeout=30) as client:
            wait_until(lambda: answers(client, READY_PATH), 150, "the API server")
            # The task went on without its scheduler.
            assert run_states(client) == ["running"]
        assert_one_signal_ends(serving, everything | serving.everything())

    def test_a_scheduler_that_hangs_is_replaced_and_its_task_goes_on(self, serving: Launcher) -> None:
        url = serving.wait_for(r"Ready after .*?(http://\S+)")[1]
        everything = serving.everything()
        with httpx.Client(base_url=url, timeout=30) as client:

            def scheduler_is_healthy() -> bool:
                answer = client.get("/api/v2/monitor/health")
                return answer.is_success and answer.json()["scheduler"]["status"] == "healthy"

            wait_until(scheduler_is_healthy, 60, "a heartbeat of the scheduler")
            os.kill(serving.child("scheduler"), signal.SIGSTOP)
            serving.wait_for("no heartbeat any more: it is ended", 180)
            serving.wait_for(r"The scheduler was ended by SIGKILL and is started again in 1 s")
            wait_until(scheduler_is_healthy, 120, "a heartbeat of the new one")
            assert run_states(client) == ["running"]
        assert_one_signal_ends(serving, everything | serving.everything())

    def test_what_ends_again_and_again_ends_everything(self, serving: Launcher) -> None:
        everything = serving.everything()
        serving.kill_for_good("dag-processor")
        assert serving.wait(30) == 1
        told = "Airflow's dag-processor was ended by SIGKILL, after it was started again 5 times within 5 minutes."
        assert told in serving.text()
        assert gone(everything)

    def test_ctrl_c_during_the_end_only_hurries_it(self, serving: Launcher) -> None:
        everything = serving.everything()
        serving.kill_for_good("dag-processor")
        serving.wait_for("Airflow's dag-processor was ended by SIGKILL")
        serving.process.send_signal(signal.SIGINT)
        assert serving.wait(TASKS_END_SECONDS) == 1
        assert "Traceback" not in serving.text()
        assert gone(everything)

    def test_its_sudden_death_ends_the_components(self, serving: Launcher) -> None:
        serving.everything()  # the running task outlives this test otherwise
        components = {serving.child(name) for name in ("dag-processor", "api_server", "triggerer")}
        scheduler = serving.child("scheduler")
        idle_workers = {pid for pid in processes.descendants(scheduler) if "<idle>" in processes.title(pid)}
        serving.process.kill()
        wait_until(lambda: gone(components | idle_workers), 180, "the end of all but the running task")

    def test_a_home_has_one_airflow(self, tmp_path: Path) -> None:
        with lock.hold(tmp_path, "http://127.0.0.1:1", "serve"):
            second = Launcher(tmp_path, "serve", home=tmp_path)
            assert second.wait(30) == 2
        assert re.fullmatch(r"Airflow already runs at http://127.0.0.1:1 \(process \d+\) from .*\n", second.text())

    def test_a_port_in_use_is_one_sentence(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            launcher = Launcher(tmp_path, "serve", "--port", str(port))
            assert launcher.wait(30) == 2
        assert launcher.text() == f"Port {port} is in use; give another one (PORT=… or --port …).\n"

    def test_a_database_that_cannot_be_made_is_told_with_its_log(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        (home / "airflow.db").mkdir(parents=True)
        launcher = Launcher(tmp_path, "serve", "--port", str(environment.free_port()), home=home)
        assert launcher.wait(30) == 1
        assert "Airflow could not prepare its database. Its log is " in launcher.text()
        assert "unable to open database file" in launcher.text()


class TestRun:
    def test_the_example_job_completes_and_nothing_is_left(self, tmp_path: Path) -> None:
        launcher = Launcher(tmp_path, "run")
        assert launcher.wait(120) == 0, launcher.text()
        text = launcher.text()
        assert text.index("writing 5 numbers") < text.index("sum so far 15") < text.index("the model says 15")
        assert not processes_at(launcher.home)

    def test_an_airflow_that_runs_already_is_used_and_a_failing_job_is_exit_code_1(
        self, tmp_path: Path, sqlite_stack: AirflowStack
    ) -> None:
        job = tmp_path / "bad.yaml"
        job.write_text(
            "{source: test, spec: {}, platform_spec: {steps: [{name: bad, executor: "
            "{provider: subprocess, command: [sh, -c, 'echo about to fail; exit 3']}}]}}"
        )
        with lock.hold(tmp_path, sqlite_stack.url, "serve"):
            launcher = Launcher(tmp_path, "run", str(job), home=tmp_path)
            assert launcher.wait(60) == 1, launcher.text()
        assert f"Using the Airflow that runs at {sqlite_stack.url}" in launcher.text()
        assert "about to fail" in launcher.text()

    def test_ctrl_c_beside_a_running_airflow_is_quiet(self, tmp_path: Path) -> None:
        job = tmp_path / "job.yaml"
        job.write_text(
            "{source: test, spec: {}, platform_spec: {steps: [{name: one, executor: "
            "{provider: subprocess, command: ['true']}}]}}"
        )
        starting = FakeServer().on("GET", READY_PATH, detail(503, "starting"))
        with starting.running() as server, lock.hold(tmp_path, server.url, "serve"):
            launcher = Launcher(tmp_path, "run", str(job), home=tmp_path)
            wait_until(lambda: server.seen, 10, "a question whether it is ready")
            launcher.process.send_signal(signal.SIGINT)
            assert launcher.wait(30) == 1
        assert launcher.text() == f"Using the Airflow that runs at {server.url}\n"

    def test_a_missing_job_file_starts_nothing(self, tmp_path: Path) -> None:
        launcher = Launcher(tmp_path, "run", str(tmp_path / "nothing.yaml"))
        assert launcher.wait(30) == 2
        assert "There is no job file" in launcher.text()
        assert not launcher.home.exists()
