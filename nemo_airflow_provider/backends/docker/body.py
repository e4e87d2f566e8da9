"""A step under its profile → what the engine is asked to create (job specification contract §6.2): pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_airflow_provider.backends.container.places import CONFIG_DIRECTORY, TASK_DIRECTORY
from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.config import DockerConfig, DockerVolumeMount
from nemo_airflow_provider.backends.docker.resources import Resources
from nemo_airflow_provider.model.spec import ContainerExecutor

_GATEWAY_NAME = "host.docker.internal"
#: NVIDIA's runtime, where it is the engine's default, gives a container the GPUs that this names, and without it all.
_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
#: No rotation, whatever the engine's defaults are: what was rotated away could never be read again.
_LOG_OPTIONS = {"max-size": "100t", "max-file": "1", "compress": "false"}


@dataclass(frozen=True, slots=True)
class Task:
    """Everything that a container is made of.

    :param image: reference of an image that the engine has
    :param labels: see `labels.of_workload`
    :param environment: see `environment.compose`
    :param task_directory: where the container finds its ephemeral storage
    :param config_directory: where it finds the volume of its configuration
    :param job_storage: the engine's mount of the job's storage, if the step asks for it
    :param gpus: ids of its GPUs
    :param volume_labels: labels of the volumes that go with the container
    """

    executor: ContainerExecutor
    image: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    resources: Resources
    task_directory: str = TASK_DIRECTORY
    config_directory: str = CONFIG_DIRECTORY
    job_storage: Mapping[str, Any] | None = None
    gpus: tuple[int, ...] = ()
    volume_labels: Mapping[str, str] = field(default_factory=dict)


def loopback_for(network: str, configured: str | None) -> str | None:
    """What a loopback host in a URL is called inside a container; None where it is the same host.

    :param network: of the container
    :param configured: `platform.loopback_address`, which counts on every network
    """
    return configured or (None if network == "host" else _GATEWAY_NAME)


def creation_of(task: Task, config: DockerConfig) -> dict[str, Any]:
    """The body of the engine's `POST /containers/create`.

    Entrypoint and command are handed on word by word; without an entrypoint the image's own counts.
    """
    container = task.executor.container
    network = config.networking.job_container_network
    return {
        "Image": task.image,
        **({"Entrypoint": list(container.entrypoint)} if container.entrypoint else {}),
        **({"Cmd": list(container.command)} if container.command else {}),
        "Env": [f"{name}={value}" for name, value in {**task.environment, **_visible(task.gpus)}.items()],
        "Labels": dict(task.labels),
        "HostConfig": {
            "Init": True,
            "NetworkMode": network,
            **({"ExtraHosts": [f"{_GATEWAY_NAME}:host-gateway"]} if _has_own_hosts(network) else {}),
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "json-file", "Config": {**_LOG_OPTIONS, "labels": ",".join(labels.LOGGED)}},
            "Mounts": _mounts(task, config),
            **_devices(task.gpus),
            **task.resources.host_config(),
        },
    }


def _has_own_hosts(network: str) -> bool:
    """Whether the engine lets a container of this network have names of hosts of its own."""
    return network not in ("host", "none") and not network.startswith("container:")


def _devices(gpus: Sequence[int]) -> dict[str, Any]:
    if not gpus:
        return {}
    request = {"Driver": "nvidia", "DeviceIDs": [str(gpu) for gpu in gpus], "Capabilities": [["gpu"]]}
    return {"DeviceRequests": [request]}


def _visible(gpus: Sequence[int]) -> dict[str, str]:
    """Whatever step and profile say: what is not given out by the pool, nobody has."""
    return {_VISIBLE_DEVICES: ",".join(map(str, gpus)) or "void"}


def _mounts(task: Task, config: DockerConfig) -> list[dict[str, Any]]:
    own = [
        {"Type": "volume", "Target": target, "VolumeOptions": {"Labels": dict(task.volume_labels)}}
        for target in (task.task_directory, task.config_directory)
    ]
    storage = [dict(task.job_storage)] if task.job_storage else []
    return own + storage + [_additional(mount) for mount in config.storage.additional_volume_mounts]


def _additional(mount: DockerVolumeMount) -> dict[str, Any]:
    if mount.kind == "tmpfs":
        options = {"TmpfsOptions": dict(mount.options)} if mount.options else {}
        return {"Type": "tmpfs", "Target": mount.mount_path, **options}
    options = {"VolumeOptions": dict(mount.options)} if mount.options else {}
    return {"Type": "volume", "Source": mount.volume_name, "Target": mount.mount_path, **options}
