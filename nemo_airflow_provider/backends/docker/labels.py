"""Labels of an engine's containers and volumes: those of every container, and which GPUs one has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from nemo_airflow_provider.backends.base import Workload
from nemo_airflow_provider.backends.container import labels as common
from nemo_airflow_provider.backends.container.labels import LOGGED as LOGGED
from nemo_airflow_provider.backends.container.labels import PREFIX as PREFIX
from nemo_airflow_provider.backends.container.labels import REMOVAL as REMOVAL
from nemo_airflow_provider.backends.container.labels import STORAGE as STORAGE
from nemo_airflow_provider.backends.container.labels import TASK as TASK
from nemo_airflow_provider.backends.container.labels import TYPE as TYPE
from nemo_airflow_provider.backends.container.labels import installation_of as installation_of
from nemo_airflow_provider.backends.container.labels import key_of as key_of
from nemo_airflow_provider.backends.container.labels import of_run as of_run
from nemo_airflow_provider.backends.container.labels import run_of as run_of
from nemo_airflow_provider.model.names import WorkloadKey

#: Ids of the GPUs that a container has, with commas between them.
GPUS = f"{PREFIX}gpu_device_ids"

#: Upstream's name for whose a container is, and for the variable that says so.
_OWNER = f"{PREFIX}jobs_controller_instance_id"
_OWNER_VARIABLE = "NHX_JOBS_DOCKER_OWNER_ID"

_GPU = re.compile(r"[0-9]{1,9}")


def of_workload(
    workload: Workload, backend: str, gpus: tuple[int, ...] = (), *, has_storage: bool = False
) -> dict[str, str]:
    """Labels of a task's container. Whose it is goes by the installation; the owner is for people and their tools.

    :param backend: name of the backend, for people who look at the engine
    :param gpus: ids of the GPUs it is given
    :param has_storage: whether it sees the job's persistent storage
    """
    return {
        **common.of_workload(workload, backend, has_storage=has_storage),
        _OWNER: os.environ.get(_OWNER_VARIABLE) or workload.installation,
        **({GPUS: ",".join(map(str, gpus))} if gpus else {}),
    }


def gpus_of(labels: Mapping[str, str]) -> tuple[int, ...]:
    """Ids of the GPUs that a container has."""
    return tuple(int(each) for each in labels.get(GPUS, "").split(",") if _GPU.fullmatch(each))


def step_filter(key: WorkloadKey) -> list[str]:
    """What the engine is asked for to find every workload of a step."""
    return _filter(common.of_every_start(key))


def run_filter(run_key: str) -> list[str]:
    """What the engine is asked for to find everything of a run."""
    return _filter(common.of_everything(run_key))


def installation_filter(installation: str) -> list[str]:
    """What the engine is asked for to find everything of an installation."""
    return _filter(common.of_installation(installation))


def _filter(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in labels.items()]
