"""Operators in DAGs that people write: what is wrong is told when the file is read, and what is right makes a step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization

from nemo_airflow_provider import dags_examples
from nemo_airflow_provider.dags.job_dag import job_dag
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model import authored
from nemo_airflow_provider.operators import step as operators
from nemo_airflow_provider.operators.step import (
    JobStepOperator,
    KubernetesJobStepOperator,
    SubprocessStepOperator,
)
from nemo_airflow_provider.operators.watching import InvalidTask
from nemo_airflow_provider.runner import StepTask

PROFILES = """
platform: {runtime: kubernetes}
jobs:
  enable_subprocess_executor: true
  executors:
    - {provider: gpu, profile: big, backend: kubernetes_job, config: {airflow: {queue: gpus}}}
    - {provider: cpu, profile: local, backend: docker, config: {}}
    - {provider: subprocess, profile: slow, backend: subprocess,
       config: {airflow: {queue: slow}, ttl_seconds_active: 90}}
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "jobs.yaml"
    file.write_text(PROFILES)
    monkeypatch.setenv("NHX_CONFIG_FILE_PATH", str(file))
    return file


def in_dag(make: Callable[[], Any]) -> Any:
    with DAG("daily", default_args={"owner": "ann"}):
        return make()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "command: what the step runs, a list of words or a line for `sh -c`, is missing."),
        ({"command": "true", "profile": "subprocess"}, "profile: 'subprocess' is not of the form 'provider/name'"),
        (
            {"command": "true", "profile": "subprocess/fast"},
            "profile: there is no profile 'subprocess/fast' of backend 'subprocess'. "
            "Allowed: subprocess/default, subprocess/slow.",
        ),
        ({"command": "true", "profile": "gpu/big"}, "there is no profile 'gpu/big' of backend 'subprocess'"),
        ({"command": "true", "workspace": "ours"}, "workspace: there is no workspace 'ours'. Allowed: default."),
        ({"command": [None]}, "command: None is neither text nor a number."),
        ({"command": "true", "entrypoint": ["sh"]}, "command: with an entrypoint it is a list of words"),
        ({"command": "true", "image": "x"}, "image: a step of provider 'subprocess' is a process of the worker's host"),
        ({"command": "true", "environment": ["A=1"]}, "environment: ['A=1'] is no mapping"),
        ({"command": "true", "environment": {"A": None}}, "environment: the value of A is None; it must be text"),
        ({"command": "true", "environment": {"A=B": "1"}}, "environment: 'A=B' is no name of a variable"),
        ({"command": "true", "config": [1]}, "config: [1] is no mapping"),
        ({"command": "true", "job_storage": "here"}, "job_storage: 'here' is no absolute path"),
        (
            {"command": "true", "result_file": "../x"},
            "result_file: '../x' is no path of at most 255 bytes below",
        ),
        ({"command": "true", "result_file": "x" * 256}, "is no path of at most 255 bytes below the task's"),
        ({"command": "true", "result_file": "ü/" * 86}, "is no path of at most 255 bytes below the task's"),
        ({"command": "true", "result_file": "/x"}, "result_file: '/x' is no path of at most 255 bytes below"),
        ({"command": "true", "step_retries": -1}, "step_retries: -1 is no whole number from 0 to 100."),
        ({"command": "true", "step_retry_delay": "soon"}, "step_retry_delay: 'soon' is no timedelta"),
    ],
)
def test_what_is_wrong_is_an_import_error(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        in_dag(lambda: SubprocessStepOperator(task_id="train", **parameters))
    assert str(caught.value).startswith("DAG 'daily', task 'train': ")
    assert text in str(caught.value)
    if "command" in parameters:
        with pytest.raises(InvalidTask, match="DAG 'daily', task 'train': "):
            in_dag(lambda: SubprocessStepOperator.partial(task_id="train", **parameters))


def test_any_profile_needs_a_name() -> None:
    with pytest.raises(InvalidTask, match="profile: it is missing; give 'provider/name'"):
        in_dag(lambda: JobStepOperator(task_id="train", command="true"))


def test_what_is_known_later_is_checked_later() -> None:
    @task
    def pick() -> list[str]:
        return ["true"]

    def make() -> JobStepOperator:
        return SubprocessStepOperator(task_id="train", command=pick(), environment={"A": "{{ ds }}"}, config="{{ 1 }}")

    assert in_dag(make).upstream_task_ids == {"pick"}


def test_a_broken_configuration_is_no_import_error(profiles: Path) -> None:
    profiles.write_text("jobs: [")
    assert in_dag(lambda: SubprocessStepOperator(task_id="train", command="true")).profile == "subprocess/default"


def test_a_profile_places_its_tasks_unless_the_author_does() -> None:
    def make(**changes: Any) -> JobStepOperator:
        made = in_dag(lambda: SubprocessStepOperator(task_id="a", command="x", profile="subprocess/slow", **changes))
        assert isinstance(made, JobStepOperator)
        return made

    assert (make().queue, make(queue="mine").queue) == ("slow", "mine")
    mapped = in_dag(
        lambda: SubprocessStepOperator.partial(task_id="a", profile="subprocess/slow").expand(command=["x", "y"])
    )
    assert (mapped.queue, mapped.retries) == ("slow", 5)


def test_airflows_time_limit_is_the_workloads() -> None:
    made = in_dag(
        lambda: SubprocessStepOperator(
            task_id="a", command="x", profile="subprocess/slow", execution_timeout=timedelta(minutes=1)
        )
    )
    assert made.execution_timeout is None
    for limit, seconds in ((made.time_limit, 60), (timedelta(hours=1), 90), (None, 90)):
        _, config = operators.open_profile(made.profile, limit)
        assert config.ttl_seconds_active == seconds


def step_task(operator: JobStepOperator, map_index: int | None = -1, **changes: Any) -> StepTask:
    run = SimpleNamespace(
        dag_id="daily",
        run_id="scheduled__2026-12-01T00:00:00+00:00",
        run_after=datetime(2026, 12, 1, tzinfo=UTC),
        clear_number=0,
        conf={"source": "mine"},
        triggering_user_name=None,
    )
    instance = SimpleNamespace(task_id=operator.task_id, map_index=map_index, max_tries=2, dag_id="daily")
    context: Any = {"dag_run": run, "ti": instance, "task": SimpleNamespace(retries=operator.retries)}
    source = operator.source or operator._own_source()
    return source.step_task(context, lambda: pytest.fail("nobody asks for the backend"))


def test_parameters_make_a_step() -> None:
    operator = in_dag(
        lambda: SubprocessStepOperator(
            task_id="Train",
            entrypoint=["python3"],
            command=["train.py", 3],
            environment={"A": 1, "TOKEN": {"from_secret": "research/hub"}},
            config={"a": [1]},
            job_storage="/storage",
            result_file="out/result.json",
            step_retries=2,
            step_retry_delay=timedelta(seconds=3),
            retries=1,
        )
    )
    found = step_task(operator, 4)
    assert found.step.executor.model_dump() == {
        "provider": "subprocess",
        "profile": "default",
        "command": ["python3", "train.py", "3"],
    }
    assert [item.model_dump(exclude_none=True) for item in found.step.environment or []] == [
        {"name": "A", "value": "1"},
        {"name": "TOKEN", "from_secret": {"name": "research/hub"}},
        {"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "/storage"},
    ]
    assert (found.step.config, found.result_file) == ({"a": [1]}, "out/result.json")
    assert (found.repeats.times, found.repeats.first_delay, found.generation) == (2, 3.0, 1)
    name = authored.step_name("Train", 4)
    assert (found.step.name, found.index) == (name, authored.stream_number(name))
    assert found.job_name == authored.job_name("daily", found.run_id)
    assert found.key(0).job == found.job_name and found.key(0) != step_task(operator, 5).key(0)


def test_a_container_gets_its_words() -> None:
    def made(**parameters: Any) -> Any:
        given = operators.StepParameters(**parameters)
        return given.step("train", "gpu", "big").executor

    line = made(command="echo $A", image="x", compute_resources={"num_gpus": 2})
    assert (line.container.entrypoint, line.container.command) == (["sh", "-c"], ["echo $A"])
    assert (line.container.image, line.resources.num_gpus) == ("x", 2)
    assert made(command=["--lr", 0.1]).container.command == ["--lr", "0.1"]
    numbers = made(image="x", compute_resources={"limits": {"cpu": 0.5, "memory": "1Gi"}, "requests": {"cpu": 2}})
    assert numbers.resources.limits.model_dump() == {"cpu": "0.5", "memory": "1Gi"}
    assert numbers.resources.requests.model_dump() == {"cpu": "2", "memory": None}


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"gpus": 1}, "compute_resources: unknown keys gpus; there are requests, limits, num_nodes"),
        ({"limits": {"cpus": 2}}, "compute_resources: unknown keys limits.cpus; there are requests, limits"),
        (
            {"limits": {"memory": "4GB"}},
            "compute_resources: limits.memory: '4GB' is no quantity; write for example '500m', '2', '512Mi' or '4Gi'.",
        ),
        ({"requests": {"cpu": "two"}}, "compute_resources: requests.cpu: 'two' is no quantity"),
        ({"limits": {"cpu": True}}, "compute_resources: limits.cpu: "),
        (
            {"num_gpus": 1},
            "compute_resources: num_gpus: a step of provider 'cpu' gets no GPUs. Leave it out, or choose a profile of "
            "provider gpu or gpu_distributed.",
        ),
        (
            {"limits": {"cpu": "500m"}, "num_nodes": 2},
            "compute_resources: num_nodes: a step of provider 'cpu' runs on one node. Leave it out, or choose a "
            "profile of provider gpu_distributed.",
        ),
    ],
)
def test_resources_that_cannot_be_had_are_an_import_error(resources: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        in_dag(
            lambda: operators.DockerStepOperator(
                task_id="train", profile="cpu/local", command="true", compute_resources=resources
            )
        )
    assert str(caught.value).startswith(f"DAG 'daily', task 'train': {text}")


JOB: dict[str, Any] = {
    "source": "file",
    "spec": {},
    "platform_spec": {
        "steps": [
            {"name": name, "executor": {"provider": "subprocess", "profile": "slow", "command": ["echo", "{{ ds }}"]}}
            for name in ("prepare", "a@b")
        ]
    },
}


FAR = {"provider": "gpu_distributed", "container": {}}


def test_a_job_becomes_a_dag() -> None:
    dag = job_dag("Nightly", JOB, schedule="@daily", tags=["mine"], default_args={"retries": 0, "owner": "ann"})
    assert dag.tags == {"mine", "nemo", "nemo:default"}
    assert [(each.task_id, each.upstream_task_ids, each.queue, each.retries) for each in dag.tasks] == [
        ("prepare", set(), "slow", 5),
        ("aAb", {"prepare"}, "slow", 5),
    ]
    found = step_task(dag.get_task("aAb"))
    assert (found.step.name, found.index, found.workspace) == ("a@b", 1, "default")
    assert found.step.executor.command == ["echo", "{{ ds }}"]  # type: ignore[union-attr]


def test_the_job_is_stored_with_the_dag() -> None:
    stored = DagSerialization.to_dict(job_dag("nightly", JOB))
    text = stored["dag"]["default_args"]["__var"][authored.DOCUMENT_KEY]
    document = authored.read_document(text)
    assert document is not None and document.workspace == "default"
    assert document.conf["platform_spec"]["steps"][1]["name"] == "a@b"


@pytest.mark.parametrize(
    ("dag_id", "job", "kwargs", "text"),
    [
        ("x", {**JOB, "name": "mine"}, {}, "the job has a name; leave it out"),
        ("x", {}, {}, "the job is not valid: "),
        ("x", "missing.yaml", {}, "missing.yaml cannot be read"),
        ("x", JOB, {"workspace": "ours"}, "workspace: there is no workspace 'ours'. Allowed: default."),
        ("nemo.x", JOB, {}, "ids that begin with 'nemo.'"),
        (
            "x",
            {
                **JOB,
                "platform_spec": {
                    "steps": [{"name": "one", "executor": {"provider": "gpu_distributed", "container": {}}}]
                },
            },
            {},
            "gpu_distributed/default",
        ),
    ],
)
def test_a_job_that_cannot_run_is_an_import_error(dag_id: str, job: Any, kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        job_dag(dag_id, job, **kwargs)
    assert str(caught.value).startswith(f"DAG '{dag_id}': ")
    assert text in str(caught.value)


def test_a_pod_hands_no_file_back() -> None:
    with pytest.raises(InvalidTask) as caught:
        in_dag(lambda: KubernetesJobStepOperator(task_id="train", command="true", result_file="result.json"))
    assert str(caught.value) == (
        "DAG 'daily', task 'train': result_file: backend 'kubernetes_job' of 'cpu/default' hands no files back; these "
        "do: docker, subprocess."
    )


def test_the_examples_are_read_without_an_error(profiles: Path) -> None:
    docker = "{provider: gpu, profile: default, backend: docker, config: {}}"
    profiles.write_text(
        f"platform: {{runtime: kubernetes}}\njobs: {{enable_subprocess_executor: true, executors: [{docker}]}}"
    )
    bag = DagBag(Path(dags_examples.__file__).parent, bundle_path=Path(dags_examples.__file__).parent)
    assert bag.import_errors == {}
    assert set(bag.dags) == {path.stem for path in Path(dags_examples.__file__).parent.glob("nemo_*.py")}
    for dag in bag.dags.values():
        DagSerialization.to_dict(dag)
