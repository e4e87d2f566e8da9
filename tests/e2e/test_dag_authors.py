"""DAGs that people write: the examples run as they are read, and their steps survive what steps of jobs survive."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider import dags_examples, processes
from nemo_airflow_provider.model.authored import job_name
from tests.e2e.lab import JOBS, Job, Lab, Marks, counting, in_parallel, numbered, profiles
from tests.stack import AirflowStack, docker, engines, kubernetes
from tests.stack.airflow import wait_until
from tests.stack.database import fresh_database

EXAMPLES = Path(dags_examples.__file__).parent
OVER = ("success", "failed")
#: The secret of the examples in containers.
HUB_TOKEN = "nemo_secret.default.hub-token"

#: Beside the examples: what only a test would write.
OWN = """
from airflow.sdk import DAG
from nemo_airflow_provider.dags.job_dag import job_dag
from nemo_airflow_provider.operators.step import SubprocessStepOperator

COUNTING = {counting!r}

with DAG("own_counting", schedule=None):
    SubprocessStepOperator(task_id="Count", command=COUNTING, result_file="none.json", step_retries=2)

with DAG("own_forged", schedule=None, tags=["nemo:default"]):
    SubprocessStepOperator(task_id="work", command="true")

work = {{"name": "work", "executor": {{"provider": "subprocess", "profile": "brief", "command": COUNTING}}}}
job_dag("Own_Job", {{"source": "own", "project": "p", "spec": {{}}, "platform_spec": {{"steps": [work]}}}})
"""

WRONG = """
from airflow.sdk import DAG
from nemo_airflow_provider.operators.step import SubprocessStepOperator

with DAG("own_wrong", schedule=None):
    SubprocessStepOperator(task_id="train", command="true", profile="subprocess/fast")
"""


class Authors(Lab):
    """A lab with DAGs in its DAG folder."""

    counted: Marks

    def run(self, dag_id: str, **params: Any) -> Run:
        """Start a run by hand."""
        wait_until(lambda: self.http.get(f"/api/v2/dags/{dag_id}").is_success, 90, f"the DAG {dag_id}")
        made = self.airflow("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": params})
        return Run(self, dag_id, made["dag_run_id"])


class Run:
    """A run of an ordinary DAG."""

    def __init__(self, lab: Authors, dag_id: str, run_id: str) -> None:
        self.lab = lab
        self.run_id = run_id
        self.job_name = job_name(dag_id, run_id)
        self.path = f"/dags/{dag_id}/dagRuns/{run_id}"

    def state(self) -> str:
        return str(self.lab.airflow("GET", self.path)["state"])

    def wait(self, state: str = "success") -> dict[str, str]:
        """Task states by task id once the run is over; mapped ones with their index."""
        wait_until(lambda: self.state() in OVER, 120, f"the end of {self.path}")
        found = self.lab.airflow("GET", f"{self.path}/taskInstances", limit=100)["task_instances"]
        states = {
            each["task_id"] + (f"[{each['map_index']}]" if each["map_index"] >= 0 else ""): each["state"]
            for each in found
        }
        assert self.state() == state, states
        return states

    def result(self, task_id: str, map_index: int = -1) -> Any:
        """The XCom of a task."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.lab.airflow("GET", path, map_index=map_index, deserialize=True)["value"]

    def messages(self, task_id: str) -> list[str]:
        """The texts of Airflow's logs of a task, all tries one after the other."""
        path = f"{self.path}/taskInstances/{task_id}"
        said = []
        for attempt in range(1, self.lab.airflow("GET", path)["try_number"] + 1):
            answer = self.lab.http.get(f"/api/v2{path}/logs/{attempt}", params={"full_content": True})
            # A worker that took too long to begin, on a busy machine, leaves a number that no try has.
            assert answer.status_code in (200, 404), answer.text
            said += answer.json()["content"] if answer.is_success else []
        return [str(each.get("event")) for each in said]


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authors]:
    """On Postgres where there is one, else on SQLite."""
    home = tmp_path_factory.mktemp("authors") / "home"
    with ExitStack() as stack:
        database = None
        if not engines.missing("postgres"):
            database = stack.enter_context(fresh_database(os.environ["NEMO_TEST_POSTGRES"]))
        unwanted, environ = ["__pycache__", "nemo_job_remote.py"], {}
        if engines.missing("kubernetes"):
            unwanted.append("nemo_kubernetes.py")
        else:
            environ = kubernetes.airflow_settings()
        shutil.copytree(EXAMPLES, home / "dags", ignore=shutil.ignore_patterns(*unwanted))
        marks = Marks(home / "counted")
        (home / "dags" / "own_airflow_dags.py").write_text(OWN.format(counting=counting(marks)))
        (home / "dags" / "own_wrong_airflow_dag.py").write_text(WRONG)
        environ[f"AIRFLOW_VAR_{HUB_TOKEN.upper()}"] = "not-for-any-log"
        airflow = AirflowStack(home, database=database, profiles=profiles(home), environ=environ)
        made = Authors(stack.enter_context(airflow))
        made.counted = marks
        stack.callback(made.http.close)
        yield made


def test_one_step(authors: Authors) -> None:
    run = authors.run("nemo_one_step")
    assert run.wait() == {"greet": "success"}
    messages = run.messages("greet")
    assert f"Hello from {run.run_id}" in messages
    assert '{"batch_size": 8}' in messages


def test_a_result_goes_to_the_next_step(authors: Authors) -> None:
    run = authors.run("nemo_chain")
    run.wait()
    assert run.result("train") == {"loss": 0.25, "epochs": 3}
    messages = run.messages("evaluate")
    assert "loss 0.25 of" in messages and "the weights" in messages


def test_mapped_steps_of_two_runs_at_once(authors: Authors) -> None:
    runs = [authors.run("nemo_hyperparameters") for _ in range(2)]
    for run in runs:
        assert run.wait() == {"best": "success", **{f"train[{index}]": "success" for index in range(3)}}
        assert run.result("best") == {"rate": 0.01, "loss": 0.0}
        assert [run.result("train", index)["rate"] for index in range(3)] == [0.1, 0.01, 0.001]


def test_a_step_that_fails_is_started_again(authors: Authors) -> None:
    run = authors.run("nemo_mixed")
    assert run.wait() == {"download": "success", "enough": "success", "train": "success", "give_up": "skipped"}
    messages = run.messages("download")
    assert [text for text in messages if text.startswith("start ")] == ["start 1", "start 2", "start 3"]
    assert "trained on 3" in " ".join(run.messages("train"))


def test_a_step_in_a_container(authors: Authors) -> None:
    engines.require("docker")
    run = authors.run("nemo_docker", image=docker.image())
    assert run.wait() == {"train": "success", "report": "success"}
    assert run.result("train") == {"loss": 0.25, "epochs": 3}
    assert run.result("report") == "loss 0.25 after 3 epochs"
    assert f'run {run.run_id} trains with {{"batch_size": 8}}' in run.messages("train")


def test_steps_in_pods(authors: Authors) -> None:
    engines.require("kubernetes")
    # Of the lab's profiles that are called default, the one in Kubernetes is of provider gpu.
    kubernetes.advertise_gpus(4)
    run = authors.run("nemo_kubernetes", image=kubernetes.image())
    assert run.wait() == {"train": "success", "report": "success"}
    assert f'run {run.run_id} trains with {{"batch_size": 8}}' in run.messages("train")
    assert "loss 0.25 after 3 epochs" in run.messages("report")


def test_a_wrong_parameter_is_an_import_error(authors: Authors) -> None:
    def told() -> str:
        errors = authors.airflow("GET", "/importErrors")["import_errors"]
        return "\n".join(each["stack_trace"] for each in errors)

    text = wait_until(told, 90, "the import error")
    assert "DAG 'own_wrong', task 'train': profile: there is no profile 'subprocess/fast'" in text
    assert "Allowed: subprocess/default, subprocess/brief" in text
    assert text.count("Traceback") == 1


def test_a_killed_task_of_an_ordinary_dag_is_adopted(authors: Authors) -> None:
    """And a result that is not there fails the step when it ends, without another start."""
    before = len(authors.counted.pids)
    run = authors.run("own_counting")
    wait_until(lambda: len(authors.counted.pids) > before, 60, "the command")
    job = Job(authors, "unused")
    job.__dict__["run_path"] = run.path
    first = job.task("Count")["try_number"]
    job.kill_task("Count")
    wait_until(lambda: job.task("Count")["try_number"] > first, 60, "the second try")
    wait_until(lambda: job.task("Count")["state"] == "running", 60, "the second try at work")
    authors.counted.enough.touch()
    try:
        assert run.wait("failed") == {"Count": "failed"}
    finally:
        authors.counted.enough.unlink()
    assert len(authors.counted.pids) == before + 1
    said = run.messages("Count")
    lines = sorted({text for text in said if text.startswith("line ")}, key=lambda text: int(text[5:]))
    assert lines and lines == numbered(len(lines))
    assert "left no result file 'none.json' below $NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH" in " ".join(said)


def authored(lab: Authors, head: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = lab.http.get(JOBS, params={"page_size": 100}).json()["data"]
    return [job for job in jobs if job["name"].startswith(head)]


def test_a_job_file_runs_as_a_job(authors: Authors) -> None:
    run = authors.run("nemo_job_file")
    run.wait()
    # Its schedule may have made a run of its own.
    [job] = [each for each in authored(authors, "nemo_job_file-") if each["name"] == run.job_name]
    assert job["source"] == "nightly" and job["workspace"] == "default"
    seen = Job(authors, job["name"])
    ended = seen.wait("completed")
    assert ended["id"] == job["id"] and authors.http.get(f"{JOBS}/{job['id']}").json()["name"] == job["name"]
    assert [step["name"] for step in seen.steps()] == ["prepare", "train"]
    assert "trained on 5 numbers" in " ".join(seen.messages())


def test_an_authored_job_is_seen_and_cancelled(authors: Authors) -> None:
    before = len(authors.counted.pids)
    run = authors.run("Own_Job")
    forged = authors.run("own_forged")
    [job] = wait_until(lambda: authored(authors, "own_job-"), 60, "the job in the list")
    assert (job["project"], job["status"] in ("created", "pending", "active")) == ("p", True)
    seen = Job(authors, job["name"])
    wait_until(lambda: len(authors.counted.pids) > before, 60, "the command")
    seen.wait_for_line("line 5")
    assert seen.cancel()["status"] in ("cancelling", "cancelled")
    seen.wait("cancelled")
    assert run.wait("failed") == {"work": "failed"}
    pid = authors.counted.pids[-1]
    wait_until(lambda: pid not in processes.living(), 60, "the end of the command")
    assert forged.wait() == {"work": "success"}
    assert not authored(authors, "own_forged")

    assert authors.http.delete(f"{JOBS}/{job['name']}").is_success
    assert authored(authors, "own_job-") == []
    assert authors.http.get(f"{JOBS}/{job['id']}").status_code == 404


def test_the_unmodified_client_lists_authored_jobs(authors: Authors, upstream_nemo: str) -> None:
    run = authors.run("nemo_job_file")
    run.wait()
    environ = {"PATH": os.environ["PATH"], "HOME": str(authors.stack.home)}
    command = [upstream_nemo, "--base-url", authors.stack.url, "jobs", "list", "--output-format", "json"]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr
    assert "nemo_job_file-" in told.stdout


def test_two_runs_of_one_step_keep_apart(authors: Authors) -> None:
    runs = in_parallel(lambda: authors.run("nemo_chain") for _ in range(3))
    for run in runs:
        run.wait()
        assert run.result("train") == {"loss": 0.25, "epochs": 3}
