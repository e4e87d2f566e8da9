"""`run` beside an Airflow of another launcher; what starts one is in the end-to-end tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemo_airflow_provider.standalone import lock
from nemo_airflow_provider.standalone.__main__ import main
from nemo_airflow_provider.standalone.server import DAGS_PATH, READY_PATH
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, logs, status
from tests.unit.cli.shapes import job as job_shape
from tests.unit.standalone.test_job import JOB, answer_with

DAGS = DAGS_PATH.partition("?")[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def test_a_run_waits_for_an_airflow_that_is_still_starting(server: FakeServer, file: Path, tmp_path: Path) -> None:
    answer_with(server, "completed")
    server.on("GET", READY_PATH, detail(503, "starting"), detail(503, "starting"), Answer([]))
    server.on("GET", DAGS, Answer({"total_entries": 0}), Answer({"total_entries": 1}))
    with lock.hold(tmp_path, server.url, "serve"):
        assert main(["run", str(file), "--home", str(tmp_path)]) == 0
    routes = server.requests()
    created = next(index for index, (method, _) in enumerate(routes) if method == "POST")
    assert routes[:created] == [("GET", READY_PATH)] * 3 + [("GET", DAGS)] * 2


@contextmanager
def holding(home: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the home as `serve` does."""
    program = (
        "import pathlib, sys, time\n"
        "from nemo_airflow_provider.standalone import lock\n"
        "with lock.hold(pathlib.Path(sys.argv[1]), sys.argv[2], 'serve'):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(home), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout and launcher.stdout.readline() == b"held\n"
        try:
            yield launcher
        finally:
            launcher.kill()


def test_an_airflow_that_ends_while_it_starts_is_told(
    server: FakeServer, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holding(tmp_path, server.url) as launcher:

        def die(_: Seen) -> Answer:
            launcher.kill()
            return detail(503, "ending")

        server.on("GET", READY_PATH, die)
        assert main(["run", str(file), "--home", str(tmp_path)]) == 1
    told = f"The launcher of {server.url} (process {launcher.pid}) ended before its Airflow was ready.\n"
    assert told in capsys.readouterr().err


def test_an_airflow_that_ends_while_the_job_runs_is_told(
    server: FakeServer, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holding(tmp_path, server.url) as launcher:

        def create(seen: Seen) -> Answer:
            name = seen.json()["name"]

            def die(_: Seen) -> Answer:
                launcher.kill()
                return Answer(hang_up=True)

            server.on("GET", f"{JOBS}/{name}/status", Answer(status(name, "active")), die)
            server.on("GET", f"{JOBS}/{name}/logs", Answer(logs()))
            return Answer(job_shape(name), 201)

        server.on("GET", READY_PATH, Answer([]))
        server.on("GET", DAGS, Answer({"total_entries": 1}))
        server.on("POST", JOBS, create)
        assert main(["run", str(file), "--home", str(tmp_path)]) == 1
    told = (
        f"The launcher of {server.url} (process {launcher.pid}) ended, and its Airflow with it, before the job was "
        "over. Run the job again.\n"
    )
    assert told in capsys.readouterr().err


def test_a_run_beside_another_run_touches_nothing_of_it(
    server: FakeServer, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock.hold(tmp_path, server.url, "run"):
        assert main(["run", str(file), "--home", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"{tmp_path} is in use by another run (process {os.getpid()}), which ends by itself: wait for it, or use "
        "another home (AIRFLOW_HOME=… make run, or --home …).\n"
    )
    assert not server.seen


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{a: [", "is neither JSON nor YAML"),
        ("{source: x}", "Missing required options"),
        ("{source: x, spec: {}, platform_spec: {steps: []}}", "At least one step"),
    ],
)
def test_a_file_that_is_no_job_starts_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    home = tmp_path / "home"
    assert main(["run", str(file), "--home", str(home)]) == 2
    captured = capfd.readouterr()
    assert told in captured.err
    assert captured.out == ""
    assert not home.exists()


def test_serve_does_not_share_a_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lock.hold(tmp_path, "http://127.0.0.1:9", "serve"):
        assert json.loads((tmp_path / "standalone.lock").read_text())["url"] == "http://127.0.0.1:9"
        assert main(["serve", "--home", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("Airflow already runs at http://127.0.0.1:9 (process ")
