"""`run` beside an Airflow of another launcher; what starts one is in the end-to-end tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_airflow_provider.standalone import lock
from nemo_airflow_provider.standalone.__main__ import main
from nemo_airflow_provider.standalone.server import DAGS_PATH, READY_PATH
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
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
    with lock.hold(tmp_path, server.url):
        assert main(["run", str(file), "--home", str(tmp_path)]) == 0
    routes = server.requests()
    created = next(index for index, (method, _) in enumerate(routes) if method == "POST")
    assert routes[:created] == [("GET", READY_PATH)] * 3 + [("GET", DAGS)] * 2


def test_an_airflow_that_ends_while_it_starts_is_told(
    server: FakeServer, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holding = (
        "import pathlib, sys, time\n"
        "from nemo_airflow_provider.standalone import lock\n"
        "with lock.hold(pathlib.Path(sys.argv[1]), sys.argv[2]):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", holding, str(tmp_path), server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout and launcher.stdout.readline() == b"held\n"

        def die(_: Seen) -> Answer:
            launcher.kill()
            launcher.wait()
            return detail(503, "ending")

        server.on("GET", READY_PATH, die)
        assert main(["run", str(file), "--home", str(tmp_path)]) == 1
    told = f"The launcher of {server.url} (process {launcher.pid}) ended before its Airflow was ready.\n"
    assert told in capsys.readouterr().err


def test_serve_does_not_share_a_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lock.hold(tmp_path, "http://127.0.0.1:9"):
        assert json.loads((tmp_path / "standalone.lock").read_text())["url"] == "http://127.0.0.1:9"
        assert main(["serve", "--home", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("Airflow already runs at http://127.0.0.1:9 (process ")
