"""Labels of everything we make in an engine: what a workload is, and whose it is (job specification contract §6.2)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from nemo_airflow_provider.backends.base import Workload
from nemo_airflow_provider.model.names import WorkloadKey

PREFIX = "nhx.nvidia.com/"
MANAGED_BY = "nemo-airflow-provider"

#: Ids of the GPUs that a container has, with commas between them.
GPUS = f"{PREFIX}gpu_device_ids"
#: What a container is: a task, the keeper of a job's storage, or what removes that.
TYPE = f"{PREFIX}job_type"
TASK, STORAGE, REMOVAL = "job", "job-storage", "storage-cleanup"

_MANAGED_BY = f"{PREFIX}managed_by"
_INSTALLATION = f"{PREFIX}installation_id"
_WORKSPACE = f"{PREFIX}job_workspace_id"
_RUN_ID = f"{PREFIX}job_run_id"
_RUN_KEY = f"{PREFIX}job_run_key"
_STEP = f"{PREFIX}job_step_name"
_GENERATION = f"{PREFIX}job_generation"
_START = f"{PREFIX}job_start"
_TASK_ID = f"{PREFIX}job_task_id"

#: Upstream's name for whose a container is, and for the variable that says so.
_OWNER = f"{PREFIX}jobs_controller_instance_id"
_OWNER_VARIABLE = "NHX_JOBS_DOCKER_OWNER_ID"

_GPU = re.compile(r"[0-9]{1,9}")

#: Those that the engine writes into its log records.
LOGGED = (
    _WORKSPACE,
    f"{PREFIX}job_id",
    f"{PREFIX}job_attempt_id",
    _STEP,
    _TASK_ID,
)


def of_run(installation: str, workspace: str, run_id: str, run_key: str, kind: str) -> dict[str, str]:
    """Labels of something that belongs to a whole run.

    :param kind: one of `TASK`, `STORAGE`, `REMOVAL`
    """
    return {
        _MANAGED_BY: MANAGED_BY,
        _INSTALLATION: installation,
        _WORKSPACE: workspace,
        _RUN_ID: run_id,
        _RUN_KEY: run_key,
        TYPE: kind,
    }


def of_workload(
    workload: Workload, backend: str, gpus: tuple[int, ...] = (), *, has_storage: bool = False
) -> dict[str, str]:
    """Labels of a task's container. Whose it is goes by the installation; the owner is for people and their tools.

    :param backend: name of the backend, for people who look at the engine
    :param gpus: ids of the GPUs it is given
    :param has_storage: whether it sees the job's persistent storage
    """
    key, executor = workload.key, workload.step.executor
    return {
        **of_run(workload.installation, key.workspace, key.run_id, key.run_key, TASK),
        _STEP: key.step,
        _GENERATION: str(key.generation),
        _START: str(key.start),
        _TASK_ID: key.task,
        f"{PREFIX}job_id": key.job,
        f"{PREFIX}job_attempt_id": workload.attempt_id,
        **({f"{PREFIX}job_step_id": workload.step_id} if workload.step_id else {}),
        _OWNER: os.environ.get(_OWNER_VARIABLE) or workload.installation,
        f"{PREFIX}job_execution_backend": backend,
        f"{PREFIX}job_execution_profile": f"{executor.provider}/{executor.profile}",
        f"{PREFIX}uses_persistent_storage": str(has_storage).lower(),
        **({GPUS: ",".join(map(str, gpus))} if gpus else {}),
    }


def key_of(labels: Mapping[str, str]) -> WorkloadKey | None:
    """The workload that a container is; None for one that is not ours, or no task."""
    if labels.get(_MANAGED_BY) != MANAGED_BY or labels.get(TYPE) != TASK:
        return None
    try:
        return WorkloadKey(
            labels[_WORKSPACE],
            labels[_RUN_ID],
            labels[_RUN_KEY],
            labels[_STEP],
            int(labels[_GENERATION]),
            int(labels[_START]),
        )
    except (KeyError, ValueError):
        return None


def run_of(labels: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Workspace, run id and run key of anything of ours; None for what is not."""
    if labels.get(_MANAGED_BY) != MANAGED_BY:
        return None
    run = labels.get(_WORKSPACE), labels.get(_RUN_ID), labels.get(_RUN_KEY)
    return run if all(run) else None  # type: ignore[return-value]


def gpus_of(labels: Mapping[str, str]) -> tuple[int, ...]:
    """Ids of the GPUs that a container has."""
    return tuple(int(each) for each in labels.get(GPUS, "").split(",") if _GPU.fullmatch(each))


def installation_of(labels: Mapping[str, str]) -> str:
    """Whose anything of ours is; empty for what is not, or does not say."""
    return labels.get(_INSTALLATION, "") if labels.get(_MANAGED_BY) == MANAGED_BY else ""


def step_filter(key: WorkloadKey) -> list[str]:
    """What the engine is asked for to find every workload of a step."""
    return [f"{_MANAGED_BY}={MANAGED_BY}", f"{TYPE}={TASK}", f"{_RUN_KEY}={key.run_key}", f"{_STEP}={key.step}"]


def run_filter(run_key: str) -> list[str]:
    """What the engine is asked for to find everything of a run."""
    return [f"{_MANAGED_BY}={MANAGED_BY}", f"{_RUN_KEY}={run_key}"]


def installation_filter(installation: str) -> list[str]:
    """What the engine is asked for to find everything of an installation."""
    return [f"{_MANAGED_BY}={MANAGED_BY}", f"{_INSTALLATION}={installation}"]
