from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_airflow_provider.model.names import MAX_NAME_WITHOUT_OUTPUT_LOCATION, is_name
from nemo_airflow_provider.standalone import environment, job
from nemo_airflow_provider.standalone.__main__ import _Console
from nemo_airflow_provider.standalone.server import AirflowServer
from tests.unit.cli.fake_server import Answer, FakeServer, Seen
from tests.unit.cli.shapes import JOBS, logs, status
from tests.unit.cli.shapes import job as job_shape

JOB = (
    "{name: always-the-same, source: test, spec: {}, platform_spec: {steps: [{name: one, executor: "
    "{provider: subprocess, command: ['true']}}]}}"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Train Model.yaml"
    path.write_text(JOB)
    return path


def answer_with(server: FakeServer, last: str) -> None:
    """A server on which every job ends at once, whatever its name."""

    def create(seen: Seen) -> Answer:
        name = seen.json()["name"]
        server.on("GET", f"{JOBS}/{name}/status", Answer(status(name, last)))
        server.on("GET", f"{JOBS}/{name}/logs", Answer(logs()))
        return Answer(job_shape(name), 201)

    server.on("POST", JOBS, create)


def after_the_end(pid: int) -> None:
    """Return when the child has ended, and leave it to be collected."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def run(server: FakeServer, file: Path, console: _Console | None = None) -> bool:
    def wait(pid: int) -> None:
        after_the_end(pid)
        if console is not None:
            console.tick(pid)

    return job.run(file, server.url, job.command_environment(os.environ, keep_tokens=False), wait)


@pytest.mark.parametrize(("last", "completed"), [("completed", True), ("error", False)])
def test_how_the_job_ended_is_the_result_whenever_its_watch_ends(
    server: FakeServer, file: Path, tmp_path: Path, last: str, completed: bool
) -> None:
    environ = environment.server_environment({}, tmp_path, port=1, api_workers=1)
    console = _Console(AirflowServer(environ), verbose=False)
    answer_with(server, last)
    assert run(server, file, console) is completed


def test_each_run_has_a_name_of_its_own(server: FakeServer, file: Path) -> None:
    answer_with(server, "completed")
    assert run(server, file)
    assert run(server, file)
    names = [seen.json()["name"] for seen in server.seen if seen.method == "POST"]
    assert len(set(names)) == 2
    assert all(name.startswith("train-model-") for name in names)


def test_a_job_that_is_refused_is_not_watched(server: FakeServer, file: Path) -> None:
    server.on("POST", JOBS, Answer({"detail": "no"}, 403))
    assert not run(server, file)
    assert len(server.seen) == 1


@pytest.mark.parametrize("stem", ["hello", "Train Model", "2026-plan", "ÄÖ", "_", "a" * 90, "a" * 39 + "-b", "A--b"])
def test_names_are_legal_whatever_the_file_is_called(stem: str) -> None:
    name = job.fresh_name(stem)
    assert is_name(name)
    assert len(name) <= MAX_NAME_WITHOUT_OUTPUT_LOCATION


def test_settings_for_another_server_do_not_reach_this_one(
    server: FakeServer, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "config.yaml"
    elsewhere.write_text("{current_context: gone, contexts: [], preferences: {}}")
    monkeypatch.setenv("NHX_CONFIG_FILE", str(elsewhere))
    monkeypatch.setenv("NHX_CURRENT_CONTEXT", "gone-too")
    monkeypatch.setenv("NHX_WORKSPACE", "theirs")
    monkeypatch.setenv("NHX_OUTPUT_FORMAT", "nonsense")
    monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "theirs")
    answer_with(server, "completed")
    assert run(server, file)
    assert all("authorization" not in seen.headers for seen in server.seen)


def test_a_server_that_was_there_gets_the_token() -> None:
    environ = {"NHX_ACCESS_TOKEN": "a", "AIRFLOW_CLI_TOKEN": "b", "NHX_BASE_URL": "http://x", "PATH": "/bin"}
    kept = {"NHX_CONFIG_FILE": os.devnull, "PATH": "/bin"}
    assert job.command_environment(environ, keep_tokens=False) == kept
    assert job.command_environment(environ, keep_tokens=True) == kept | {
        "NHX_ACCESS_TOKEN": "a",
        "AIRFLOW_CLI_TOKEN": "b",
    }
