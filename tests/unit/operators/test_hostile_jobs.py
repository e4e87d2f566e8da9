"""Jobs in DAG files that were made to harm, or are of another kind altogether: a sentence, and soon."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from nemo_airflow_provider.dags.job_dag import job_dag
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.operators.nemo_job import NemoJobOperator
from nemo_airflow_provider.operators.watching import InvalidTask
from tests.unit.operators.hostile import FILES, VALUES, looped

JOB: dict[str, Any] = {
    "source": "file",
    "spec": {},
    "platform_spec": {"steps": [{"name": "one", "executor": {"provider": "subprocess", "command": ["true"]}}]},
}


@pytest.fixture(autouse=True)
def _profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("platform: {runtime: docker}\njobs: {enable_subprocess_executor: true}\n")
    monkeypatch.setenv("NHX_CONFIG_FILE_PATH", str(file))
    monkeypatch.setenv("AIRFLOW_CONN_NEMO_JOBS_DEFAULT", '{"conn_type": "nemo_jobs", "host": "http://127.0.0.1:1"}')


@pytest.mark.parametrize(("content", "text"), FILES)
def test_a_job_file(content: str | None, text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidJob) as caught:
        job_dag("nightly", file)
    assert str(caught.value).startswith(f"DAG 'nightly': the job file {file} ")
    assert text in str(caught.value)

    with DAG("d", schedule=None):
        operator = NemoJobOperator(task_id="t", job=str(file))
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, max_tries=2)
    context: Any = {"ti": instance, "task_state_store": None}
    with pytest.raises(AirflowFailException) as failed:
        operator.execute(context)
    assert str(failed.value).startswith(f"The job file {file} ")
    assert text in str(failed.value)


def test_a_pipe_that_nothing_comes_from(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidJob, match="cannot be read: it is a pipe, and nothing came from it"):
        job_dag("nightly", tmp_path / "pipe")


def test_number_keys_of_a_file_are_texts_as_on_the_wire(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("source: s\nspec: {1: 2, when: 2026-02-03}\nplatform_spec: {steps: [{name: ab}]}\n")
    with pytest.raises(InvalidJob, match="the job is not valid: platform_spec.steps.0.executor: Field required"):
        job_dag("nightly", file)


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_a_job_of_python(value: Any, text: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        job_dag("nightly", {**JOB, "spec": value})
    assert str(caught.value).startswith("DAG 'nightly': the job cannot be stored: ")
    assert text.replace("'a", "'spec.a") in str(caught.value)


@pytest.mark.parametrize(("value", "text"), VALUES)
@pytest.mark.parametrize("make", [NemoJobOperator, NemoJobOperator.partial])
def test_a_job_of_python_for_elsewhere(make: Any, value: Any, text: str) -> None:
    with DAG("daily", schedule=None), pytest.raises(InvalidTask) as caught:
        make(task_id="train", job={**JOB, "spec": value})
    told = str(caught.value)
    assert told.startswith("DAG 'daily', task 'train': job: ")
    assert text.replace("'a", "'spec.a") in told


def test_a_job_for_elsewhere_that_holds_itself_and_a_template() -> None:
    with DAG("daily", schedule=None), pytest.raises(InvalidTask, match="or holds itself"):
        NemoJobOperator(task_id="train", job={**looped(), "when": "{{ ds }}"})


@pytest.mark.parametrize("job", [5, None, ["a"], b"job.yaml", Path("job.yaml")])
def test_what_is_no_job_for_elsewhere(job: Any) -> None:
    with pytest.raises(InvalidTask, match=f"Task 't': job: a {type(job).__name__} is neither the body of a job nor"):
        NemoJobOperator(task_id="t", job=job)


def test_jobs_for_elsewhere_that_are_known_later() -> None:
    with DAG("daily", schedule=None):

        @task
        def made() -> dict[str, Any]:
            return JOB

        NemoJobOperator(task_id="one", job={**JOB, "spec": {"of": made(), "when": "{{ ds }}"}})
        NemoJobOperator(task_id="two", job=made())
        NemoJobOperator.partial(task_id="each", name="a").expand(job=[JOB, JOB])


def test_tuples_and_number_keys_of_python_are_what_json_makes_of_them() -> None:
    job = {**JOB, "spec": {1: (2, 3)}}
    assert '"1"' in job_dag("nightly", job).default_args["nemo_job"]


@pytest.mark.parametrize("job", [5, None, ["a"], b"job.yaml"])
def test_what_is_no_job(job: Any) -> None:
    kind = type(job).__name__
    with pytest.raises(InvalidJob, match=f"DAG 'nightly': job: a {kind} is neither the body of a job nor the path"):
        job_dag("nightly", job)


@pytest.mark.parametrize("dag_id", [5, None, ["a"]])
def test_what_is_no_dag_id(dag_id: Any) -> None:
    with pytest.raises(InvalidJob, match=r"dag_id: .* is no text"):
        job_dag(dag_id, JOB)


@pytest.mark.parametrize("workspace", [[], {}, None, 5])
def test_what_is_no_workspace(workspace: Any) -> None:
    with pytest.raises(InvalidJob, match=r"DAG 'nightly': workspace: there is no workspace .* Allowed: default\."):
        job_dag("nightly", JOB, workspace=workspace)
