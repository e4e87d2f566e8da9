"""The unmodified upstream `nemo jobs` against our server: one of each command, its output and its exit code.

A call costs seconds of pure start, so calls that do not need each other run two at a time, and what the library
tests cover already is not repeated here.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from nemo_airflow_provider.backends.docker import nvml
from tests.stack import docker, engines
from tests.wire.jobs import LONG, Jobs, body, fresh
from tests.wire.upstream import Command, Told, unwrapped

PROJECT = "wire-command"
HINT = "Hint: Check the resource name/ID with nemo jobs list."


def text_of(name: str | None, *scripts: str, **fields: Any) -> str:
    return json.dumps(body(name, *scripts, **fields))


def container_of(provider: str) -> str:
    """A job of a step in a container."""
    script = "echo line 1; echo line 2; exec cat $NEMO_JOB_STEP_CONFIG_FILE_PATH"
    container = {"image": docker.image(), "entrypoint": ["sh", "-c"], "command": [script]}
    one = {"name": "one", "executor": {"provider": provider, "container": container}, "config": {"x": 1}}
    return text_of(None, platform_spec={"steps": [one]})


@pytest.fixture(scope="module")
def ended(jobs: Jobs) -> str:
    name = fresh("cli")
    jobs.run(name, "seq 12; echo oops >&2", project=PROJECT)
    return name


@pytest.fixture(scope="module")
def failed(jobs: Jobs) -> str:
    name = fresh("cli")
    jobs.create(name, "echo about to fail; exit 4", project=PROJECT)
    jobs.wait(name, "error")
    return name


def all_of(nemo: Command, *calls: tuple[str, ...]) -> list[Told]:
    """Run the calls, two at a time."""
    told: list[Told] = []
    for index in range(0, len(calls), 2):
        started = [nemo.start(*call) for call in calls[index : index + 2]]
        told += [command.told() for command in started]
    return told


def assert_refused(told: Told, code: int, first_words: str) -> None:
    assert (told.code, unwrapped(told.err).startswith(first_words)) == (code, True), told


class TestReading:
    def test_list(self, nemo: Command, ended: str, failed: str) -> None:
        status, both, table = all_of(
            nemo,
            ("list", "--filter.status", "completed", "--filter.project", PROJECT),
            ("list", "--filter", json.dumps({"project": PROJECT}), "--all-pages", "--page-size", "1"),
            ("list", "--filter.project", PROJECT, "-f", "table", "--page-size", "1", "--sort", "created_at"),
        )
        assert [job["name"] for job in status.data["data"]] == [ended]
        assert status.data["pagination"]["total_results"] == 1
        assert [job["name"] for job in both.data["data"]] == [failed, ended]
        header, row = (line for line in table.out.splitlines() if re.match("[┃│]", line))
        assert header.strip("┃ ").split()[0] == "name" and ended in row and "completed" in row
        assert "More pages of results are available! Use --all-pages" in unwrapped(table.err)

    def test_get_and_status(self, nemo: Command, ended: str) -> None:
        get, status = all_of(nemo, ("get", ended), ("get-status", ended, "-f", "yaml"))
        assert (get.data["name"], get.data["status"], get.data["description"]) == (ended, "completed", None)
        assert re.search(r"^status: completed$", status.out, re.M) and "exit_code: 0" in status.out

    def test_logs(self, nemo: Command, jobs: Jobs, ended: str) -> None:
        page, everything, tail, stream = all_of(
            nemo,
            ("get-logs", ended, "--limit", "5"),
            ("get-logs", ended, "--limit", "5", "--all-pages", "--step-id", "one"),
            ("tail", ended, "-n", "2"),
            ("get-logs", ended, "--tail", "1", "--stream", "-f", "json"),
        )
        assert [row["message"] for row in page.data["data"]] == list("12345")
        assert page.data["total"] == 13 and page.data["next_page"]
        assert [row["message"] for row in everything.data["data"]] == jobs.lines(ended)
        assert len(everything.data["data"]) == 13
        assert [
            re.sub(r"^\[\d\d:\d\d:\d\d\] one/task-[0-9a-f]{12} \| ", "", line) for line in tail.out.splitlines()
        ] == (jobs.lines(ended, tail=2))
        line = json.loads(stream.out)
        assert list(line) == ["timestamp", "job", "job_step", "job_task", "message"]

    def test_steps_and_tasks(self, nemo: Command, jobs: Jobs, ended: str) -> None:
        task = jobs.status(ended)["steps"][0]["tasks"][0]["name"]
        steps, step, tasks, one = all_of(
            nemo,
            ("steps", "list", ended),
            ("steps", "get", "one", "--job", ended),
            ("tasks", "list", "one", "--job", ended, "-f", "csv"),
            ("tasks", "get", task, "--job", ended, "--step", "one"),
        )
        assert [item["name"] for item in steps.data["data"]] == ["one"]
        assert step.data["status"] == "completed"
        assert tasks.out.splitlines()[0].startswith("name,workspace,created_at") and task in tasks.out
        assert one.data["name"] == task

    def test_profiles(self, nemo: Command) -> None:
        profiles = {
            (each["provider"], each["profile"]): each["backend"] for each in nemo("list-execution-profiles").data
        }
        assert profiles.pop(("subprocess", "default")) == "subprocess"
        containers = {("cpu", "default"): "docker", ("gpu", "default"): "docker"}
        assert profiles in ({}, containers)  # none where no engine answers


class TestWatching:
    def test_a_running_and_a_failed_job(self, nemo: Command, jobs: Jobs, failed: str) -> None:
        name = fresh("cli")
        jobs.create(name, "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 1; done")
        running = nemo.start("watch", name, "--poll-interval", "1")
        sad = nemo("watch", failed)
        assert sad.code == 1
        assert "| about to fail" in sad.out
        assert f"Job '{failed}' ended with status 'error': " in unwrapped(sad.out)
        assert "Job exited with code 4" in sad.out
        told = running.told()
        assert told.code == 0, told
        assert re.findall(r"\| (line \d)", told.out) == [f"line {number}" for number in range(1, 9)]
        assert told.out.rstrip().endswith(f"Job '{name}' completed")
        assert re.match(r"\[\d\d:\d\d:\d\d\] Status: ", told.out)

    def test_create_and_wait_or_watch(self, nemo: Command) -> None:
        waited, watched = fresh("cli"), fresh("cli")
        wait, watch = all_of(
            nemo,
            ("create", waited, "--input-data", text_of(None, "true"), "--wait", "--poll-interval", "1"),
            (
                "create",
                watched,
                *("--input-data", text_of(None, "echo seen; exit 2"), "--watch", "--poll-interval", "1"),
            ),
        )
        assert wait.code == 0 and "✓ Job completed!" in wait.out, wait
        assert json.JSONDecoder().raw_decode(wait.out.lstrip())[0]["status"] == "created"
        assert watch.code == 1 and "| seen" in watch.out, watch
        assert f"Job '{watched}' ended with status 'error'" in unwrapped(watch.out)

    def test_a_timeout_and_an_unknown_job(self, nemo: Command, jobs: Jobs) -> None:
        name = fresh("cli")
        jobs.create(name, "sleep 300")
        timeout, unknown = all_of(
            nemo, ("watch", name, "--timeout", "2", "--poll-interval", "1"), ("watch", "no-such-job")
        )
        assert (timeout.code, unwrapped(timeout.err).strip()) == (1, f"Timed out watching job '{name}'")
        assert unknown.code == 1 and "not found" in unknown.err
        assert nemo("cancel", name).data["status"] == "cancelling"
        jobs.wait(name, "cancelled")
        deleted = nemo("delete", name)
        assert (deleted.code, deleted.out.strip()) == (0, "✓ Deleted successfully")


class TestContainers:
    """The built-in profiles of runtime `docker`."""

    def test_a_job_of_cpu_default(self, nemo: Command) -> None:
        engines.require("docker")
        name = fresh("docker")
        watched = nemo("create", name, "--input-data", container_of("cpu"), "--watch", "--poll-interval", "1")
        assert watched.code == 0 and f"Job '{name}' completed" in watched.out, watched
        assert re.findall(r"\| (line \d|\{.*\})", watched.out) == ["line 1", "line 2", '{"x": 1}']
        logs, status = all_of(nemo, ("get-logs", name, "--step-id", "one"), ("get-status", name))
        assert [row["message"] for row in logs.data["data"]] == ["line 1", "line 2", '{"x": 1}']
        assert status.data["status_details"]["image"] == docker.IMAGE

    def test_a_job_of_gpu_default_on_a_host_without_gpus(self, nemo: Command) -> None:
        engines.require("docker")
        if nvml.devices():
            pytest.skip("This host has GPUs, and its jobs may use them.")
        told = nemo("create", "--input-data", container_of("gpu"))
        assert_refused(
            told,
            3,
            "Invalid input: (422) Invalid job specification: this job requires GPU resources, but the platform is "
            "running on Docker with no GPUs configured. Configure GPUs in the platform config or choose a non-GPU "
            "execution profile.",
        )


class TestPause:
    def test_pause_watch_resume_and_cancel(self, nemo: Command, jobs: Jobs) -> None:
        name = fresh("cli")
        jobs.create(name, LONG)
        jobs.wait_for_lines(name, 1)
        paused = nemo("pause", name)
        assert (paused.code, paused.data["status"]) == (0, "pausing")
        watched = nemo("watch", name, "--poll-interval", "1")
        assert watched.code == 1, watched
        assert f"Job '{name}' ended with status 'paused'" in unwrapped(watched.out)
        status = nemo("get-status", name).data
        assert (status["status"], [task["status"] for task in status["steps"][0]["tasks"]]) == ("paused", ["paused"])
        assert nemo("pause", name).data["status"] == "paused"
        resumed = nemo("resume", name)
        assert (resumed.code, resumed.data["status"] in ("resuming", "pending", "active")) == (0, True)
        jobs.wait_for_lines(name, 3)
        jobs.wait(name, "active")
        assert nemo("resume", name).data["status"] == "active"
        tasks = nemo("tasks", "list", "one", "--job", name, "-f", "json").data["data"]
        assert [(task["status"], task["status_details"]["message"]) for task in tasks] == [
            ("cancelled", "Paused"),
            ("active", "Job is running"),
        ]
        assert nemo("cancel", name).data["status"] == "cancelling"
        jobs.wait(name, "cancelled")
        for verb in ("pause", "resume"):
            assert nemo(verb, name).data["status"] == "cancelled"


class TestRefusals:
    def test_what_the_server_refuses(self, nemo: Command, jobs: Jobs, ended: str) -> None:
        running = fresh("cli")
        jobs.create(running, "sleep 300")
        began = time.monotonic()
        taken, profile, missing, combined, alive, bad = all_of(
            nemo,
            ("create", ended, "--input-data", text_of(None, "true")),
            (
                "create",
                "--source",
                "x",
                "--spec",
                "{}",
                "--platform-spec",
                '{"steps":[{"name":"aa","executor":{"provider":"gpu","profile":"x","container":{}}}]}',
            ),
            ("get", "nope"),
            ("get-logs", ended, "--tail", "5", "--limit", "5"),
            ("delete", running),
            ("list", "--filter", '{"colour": "red"}'),
        )
        took = time.monotonic() - began
        jobs.cancel(running)
        assert_refused(
            taken,
            3,
            f"Conflict: (409) Job '{ended}' already exists in workspace 'default'. Choose a different job name "
            "or delete the existing job before creating a new one.",
        )
        assert_refused(
            profile,
            3,
            "Invalid input: (422) The execution profile 'gpu/x' specified in step 'aa' does not exist.",
        )
        assert_refused(missing, 3, "Not found: (404) Job 'nope' not found in workspace 'default'.")
        assert HINT in unwrapped(missing.err)
        assert_refused(combined, 3, "Bad request: (400) tail cannot be combined with limit; tail controls")
        assert_refused(alive, 3, f"Conflict: (409) Cannot delete job '{running}' while it is '")
        assert_refused(bad, 3, "Bad request: (400) Unknown filter field 'colour'.")
        assert took < 120

    def test_what_the_client_refuses(self, nemo: Command) -> None:
        name, steps, elsewhere = all_of(
            nemo,
            ("create", "Bad_Name", "--input-data", text_of(None, "true")),
            ("create", "--source", "x", "--spec", "{}", "--platform-spec", '{"steps":[]}'),
            ("get", "x", "--workspace", "elsewhere"),
        )
        assert_refused(name, 2, "Invalid input: name String should match pattern")
        assert_refused(steps, 2, "Invalid input: platform_spec Value error, At least one step is required in the job")
        assert_refused(elsewhere, 3, "Not found: (404) Workspace 'elsewhere' not found")
        down = nemo("get", "x", NHX_BASE_URL="http://127.0.0.1:1")
        assert_refused(down, 3, "Connection error: [Errno 111] Connection refused")
