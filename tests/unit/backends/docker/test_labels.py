from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from tests.unit.backends.docker.make import KEY, workload

job_names = st.from_regex(names.NAME_PATTERN, fullmatch=True).filter(names.is_name)
foreign = st.dictionaries(st.sampled_from([*labels.of_workload(workload(), "docker", (1,)), "x"]), st.text())


@settings(max_examples=50)
@given(job_names, job_names, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_key_comes_back(job: str, step: str, generation: int, start: int) -> None:
    key = WorkloadKey("team-a", names.run_id_of(job, 2), "3xY", step, generation, start)
    assert labels.key_of(labels.of_workload(workload(key), "docker")) == key


@pytest.mark.parametrize("name", ["a@b+c.d_e", "a..b", "scheduled__x", "a" * 63, "a" + "@" * 62])
def test_names_that_are_hard(name: str) -> None:
    key = WorkloadKey("w" * 63, names.run_id_of(name), "3xY", name, 0, 0)
    found = labels.of_workload(workload(key), "docker")
    assert labels.key_of(found) == key
    assert labels.run_of(found) == (key.workspace, key.run_id, key.run_key)


def test_all_of_them() -> None:
    whole = replace(workload(provider="gpu"), step_id="platform-job-step-3xYzRunKey-1-2")
    assert labels.of_workload(whole, "docker", (0, 2), has_storage=True) == {
        "nhx.nvidia.com/managed_by": "nemo-airflow-provider",
        "nhx.nvidia.com/installation_id": "home",
        "nhx.nvidia.com/job_type": "job",
        "nhx.nvidia.com/job_workspace_id": "team-a",
        "nhx.nvidia.com/job_run_id": KEY.run_id,
        "nhx.nvidia.com/job_run_key": "3xYzRunKey",
        "nhx.nvidia.com/job_id": "train@1+.x",
        "nhx.nvidia.com/job_attempt_id": "platform-job-attempt-3xYzRunKey-0",
        "nhx.nvidia.com/job_step_id": "platform-job-step-3xYzRunKey-1-2",
        "nhx.nvidia.com/jobs_controller_instance_id": "home",
        "nhx.nvidia.com/job_step_name": "fit@home+1.0_x",
        "nhx.nvidia.com/job_generation": "2",
        "nhx.nvidia.com/job_start": "1",
        "nhx.nvidia.com/job_task_id": KEY.task,
        "nhx.nvidia.com/job_execution_backend": "docker",
        "nhx.nvidia.com/job_execution_profile": "gpu/default",
        "nhx.nvidia.com/uses_persistent_storage": "true",
        "nhx.nvidia.com/gpu_device_ids": "0,2",
    }
    plain = labels.of_workload(workload(), "docker")
    assert plain["nhx.nvidia.com/uses_persistent_storage"] == "false"
    assert labels.GPUS not in plain
    assert set(labels.LOGGED) <= plain.keys()


def test_an_owner_that_the_worker_names_changes_no_ownership(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NHX_JOBS_DOCKER_OWNER_ID", "lab-7")
    found = labels.of_workload(workload(), "docker")
    assert found["nhx.nvidia.com/jobs_controller_instance_id"] == "lab-7"
    assert labels.installation_of(found) == "home"


@settings(max_examples=50)
@given(foreign)
def test_labels_of_others_never_raise(found: dict[str, str]) -> None:
    labels.key_of(found)
    labels.run_of(found)
    labels.gpus_of(found)


@pytest.mark.parametrize(
    "change",
    [
        {"nhx.nvidia.com/managed_by": "jobs-controller"},
        {"nhx.nvidia.com/job_type": "job-storage"},
        {"nhx.nvidia.com/job_generation": "two"},
        {"nhx.nvidia.com/job_generation": ""},
    ],
)
def test_what_is_no_task_of_ours(change: dict[str, str]) -> None:
    assert labels.key_of({**labels.of_workload(workload(), "docker"), **change}) is None
    assert labels.key_of({}) is None


@pytest.mark.parametrize("kind", [labels.TASK, labels.STORAGE, labels.REMOVAL])
def test_a_run_comes_back(kind: str) -> None:
    found = labels.of_run("home", "w", "r", "k", kind)
    assert labels.run_of(found) == ("w", "r", "k")
    assert labels.run_of({**found, "nhx.nvidia.com/managed_by": "somebody"}) is None
    for name in found:
        if re.search("workspace|run", name):
            assert labels.run_of({each: value for each, value in found.items() if each != name}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", (0,)), ("0,2,11", (0, 2, 11)), ("", ()), ("1,x,2", (1, 2)), (" 1", ()), ("-1", ()), ("²", ()), ("٣", ())],
)
def test_gpus(text: str, expected: tuple[int, ...]) -> None:
    assert labels.gpus_of({labels.GPUS: text}) == expected
    assert labels.gpus_of({}) == ()


def test_what_the_engine_is_asked_for_finds_what_was_labelled() -> None:
    own = labels.of_workload(workload(), "docker")
    for asked in (labels.step_filter(KEY), labels.run_filter(KEY.run_key), labels.installation_filter("home")):
        assert all(own[name] == value for name, _, value in (each.partition("=") for each in asked))
    other_step = labels.of_workload(workload(WorkloadKey("w", "r", "3xYzRunKey", "other", 0, 0)), "docker")
    assert any(other_step[each.partition("=")[0]] != each.partition("=")[2] for each in labels.step_filter(KEY))
