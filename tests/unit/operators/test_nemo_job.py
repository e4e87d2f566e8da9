"""The operator for jobs elsewhere: what it hands on, and what the run's ends become in Airflow."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowTaskTimeout,
)

from nemo_airflow_provider.errors import InvalidJob, Superseded
from nemo_airflow_provider.operators import nemo_job
from nemo_airflow_provider.operators.host import TaskHost
from nemo_airflow_provider.remote.run import RemoteResult
from nemo_airflow_provider.remote.task import RemoteTask
from nemo_airflow_provider.remote.trouble import RemoteTrouble
from nemo_airflow_provider.runner import StepFailed, StepLeft

JOB = {"platform_spec": {"steps": []}}


@pytest.fixture(autouse=True)
def _connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_NEMO_JOBS_DEFAULT", '{"conn_type": "nemo_jobs", "host": "http://127.0.0.1:1"}')


def context(**changes: Any) -> Any:
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, max_tries=2)
    return {"ti": instance, "task_state_store": None, "word": "hello", **changes}


def runs(monkeypatch: pytest.MonkeyPatch, end: BaseException | RemoteResult) -> list[Any]:
    """Replace the run by one with this end; the tasks it is given, and `cancelled`."""
    seen: list[Any] = []

    class Run:
        def __init__(self, task: RemoteTask, host: TaskHost) -> None:
            seen.append(task)

        def run(self) -> RemoteResult:
            if isinstance(end, BaseException):
                raise end
            return end

        def cancel_now(self) -> None:
            seen.append("cancelled")

    monkeypatch.setattr(nemo_job, "RemoteRun", Run)
    return seen


@pytest.mark.parametrize(
    ("end", "exception"),
    [
        (StepFailed("Job ended as error"), AirflowFailException),
        (InvalidJob("no name"), AirflowFailException),
        (RemoteTrouble("no answer"), AirflowException),
        (StepLeft("going away"), AirflowRescheduleException),
        (Superseded("archived"), AirflowFailException),
    ],
)
def test_ends(monkeypatch: pytest.MonkeyPatch, end: Exception, exception: type[Exception]) -> None:
    runs(monkeypatch, end)
    with pytest.raises(exception) as caught:
        nemo_job.NemoJobOperator(task_id="t", job=JOB).execute(context())
    assert type(caught.value) is exception


def test_an_execution_timeout_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = runs(monkeypatch, AirflowTaskTimeout("too long"))
    with pytest.raises(AirflowTaskTimeout):
        nemo_job.NemoJobOperator(task_id="t", job=JOB).execute(context())
    assert seen[-1] == "cancelled"


def test_what_is_handed_on_and_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    result = RemoteResult("id", "name", "research", "completed", [])
    seen = runs(monkeypatch, result)
    operator = nemo_job.NemoJobOperator(
        task_id="t", job={**JOB, "name": "body"}, workspace="research", timeout=timedelta(minutes=1)
    )
    assert operator.execute(context())["id"] == "id"
    [task] = seen
    assert (task.name, task.server.workspace, task.timeout_seconds) == ("body", "research", 60.0)
    assert (task.caller.generation, task.max_log_lines, task.server.url) == (2, 5000, "http://127.0.0.1:1")


@pytest.mark.parametrize("absolute", [True, False])
def test_a_job_in_a_file_is_templated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, absolute: bool) -> None:
    seen = runs(monkeypatch, RemoteResult("id", "name", "default", "completed", []))
    file = tmp_path / "job.yaml"
    file.write_text("spec: {word: '{{ word }}: yes'}\n")
    with DAG("d", schedule=None) as dag:
        operator = nemo_job.NemoJobOperator(task_id="t", job=str(file) if absolute else "job.yaml")
    dag.fileloc = str(tmp_path / "dag.py")
    operator.execute(context())
    assert seen[0].job == {"spec": {"word": "hello: yes"}}


@pytest.mark.parametrize("lines", [-1, True, "5", 1.5])
def test_a_number_of_lines_that_is_none(lines: Any) -> None:
    with pytest.raises(InvalidJob, match="max_log_lines: .* is no whole number from 0 on"):
        nemo_job.NemoJobOperator(task_id="train", job={}, max_log_lines=lines)


def test_fields_that_are_templated() -> None:
    assert set(nemo_job.NemoJobOperator.template_fields) == {"job", "name", "workspace"}
