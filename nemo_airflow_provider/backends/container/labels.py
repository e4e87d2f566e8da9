"""Labels of everything we make in an engine: what a workload is, and whose it is (job specification contract §6.2)."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_airflow_provider.backends.base import Workload
from nemo_airflow_provider.model.names import WorkloadKey

PREFIX = "nhx.nvidia.com/"
MANAGED_BY = "nemo-airflow-provider"

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
TASK_ID = f"{PREFIX}job_task_id"

_JOB_ID = f"{PREFIX}job_id"
_ATTEMPT_ID = f"{PREFIX}job_attempt_id"

#: Those that say what a line of output is of.
LOGGED = (_WORKSPACE, _JOB_ID, _ATTEMPT_ID, _STEP, TASK_ID)
#: Those by which we find again what is ours; whoever changes one loses it.
IDENTITY = frozenset(
    {_MANAGED_BY, _INSTALLATION, _WORKSPACE, _RUN_ID, _RUN_KEY, TYPE, _STEP, _GENERATION, _START, TASK_ID}
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


def of_workload(workload: Workload, backend: str, *, has_storage: bool = False) -> dict[str, str]:
    """Labels of a task's container.

    :param backend: name of the backend, for people who look at the engine
    :param has_storage: whether it sees the job's persistent storage
    """
    key, executor = workload.key, workload.step.executor
    return {
        **of_run(workload.installation, key.workspace, key.run_id, key.run_key, TASK),
        _STEP: key.step,
        _GENERATION: str(key.generation),
        _START: str(key.start),
        TASK_ID: key.task,
        _JOB_ID: key.job,
        _ATTEMPT_ID: workload.attempt_id,
        **({f"{PREFIX}job_step_id": workload.step_id} if workload.step_id else {}),
        f"{PREFIX}job_execution_backend": backend,
        f"{PREFIX}job_execution_profile": f"{executor.provider}/{executor.profile}",
        f"{PREFIX}uses_persistent_storage": str(has_storage).lower(),
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


def installation_of(labels: Mapping[str, str]) -> str:
    """Whose anything of ours is; empty for what is not, or does not say."""
    return labels.get(_INSTALLATION, "") if labels.get(_MANAGED_BY) == MANAGED_BY else ""


def of_every_start(key: WorkloadKey) -> dict[str, str]:
    """What every workload of a step has."""
    return {_MANAGED_BY: MANAGED_BY, TYPE: TASK, _RUN_KEY: key.run_key, _STEP: key.step}


def of_everything(run_key: str) -> dict[str, str]:
    """What everything of a run has."""
    return {_MANAGED_BY: MANAGED_BY, _RUN_KEY: run_key}


def of_installation(installation: str) -> dict[str, str]:
    """What everything of an installation has."""
    return {_MANAGED_BY: MANAGED_BY, _INSTALLATION: installation}


def of_task(key: WorkloadKey) -> dict[str, str]:
    """What everything of one workload has."""
    return {_MANAGED_BY: MANAGED_BY, TASK_ID: key.task}
