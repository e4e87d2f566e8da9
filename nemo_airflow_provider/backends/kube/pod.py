"""A step under its profile → the template of its pods (job specification contract §7.2): pure."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.backends.container.places import CONFIG_NAME, Places
from nemo_airflow_provider.backends.kube import claims
from nemo_airflow_provider.backends.kube.config import PodConfig, PodVolume
from nemo_airflow_provider.backends.kube.metadata import metadata_of
from nemo_airflow_provider.backends.kube.resources import GPU, PodResources
from nemo_airflow_provider.model.spec import ContainerExecutor

#: The container whose end is the step's.
MAIN = "nemo-job-task"

_SCRATCH, _CONFIG, _STORAGE, _MEMORY = "task-storage", "job-step-config", "job-storage", "dshm"
_SHM_PATH = "/dev/shm"
#: NVIDIA's runtime, where it is a node's default, gives a container the GPUs that this names, and without it all.
_VISIBLE_DEVICES = {"NVIDIA_VISIBLE_DEVICES": "void"}
_GPU_TOLERATION = {"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
#: The group that volumes are given to, so that any user of an image may write them.
_VOLUME_GROUP = 2000
#: The API's numbers of seconds have 32 bits.
_MOST_SECONDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PodTask:
    """Everything that a pod is made of beside its profile.

    :param name: of the objects that it is made by
    :param own: what it is, see `labels.of_workload`
    :param environment: see `environment.compose`
    :param secrets: those variables whose values stand in the Secret, and their keys in it
    :param storage_directory: of the job in the profile's claim, if the step asks for it
    :param pull_secrets: the platform's, by name
    """

    name: str
    own: Mapping[str, str]
    executor: ContainerExecutor
    image: str
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    places: Places
    resources: PodResources
    storage_directory: str | None = None
    pull_secrets: tuple[str, ...] = ()


def environment_without_gpus(profile: Mapping[str, str], gpus: int) -> dict[str, str]:
    """A profile's `env`, and that a step without GPUs has none, unless the profile says otherwise (§5)."""
    return {**({} if gpus else _VISIBLE_DEVICES), **profile}


def template_of(task: PodTask, config: PodConfig) -> dict[str, Any]:
    """The `template` of what makes the pods."""
    metadata = config.pod_metadata
    volumes, mounts = claims.merged(_volumes(task, config), _mounts(task, config))
    return {
        "metadata": metadata_of(None, task.own, metadata.labels, metadata.annotations),
        "spec": _without_nothing(
            {
                "restartPolicy": "Never",
                "activeDeadlineSeconds": _deadline_seconds(config),
                # With none, a pod that is deleted is forgotten before its node has ended it.
                "terminationGracePeriodSeconds": max(1, math.ceil(config.graceful_shutdown_timeout_seconds)),
                "serviceAccountName": config.service_account_name,
                "automountServiceAccountToken": config.automount_service_account_token,
                # Else each service of the namespace puts variables of its own into the step's environment.
                "enableServiceLinks": False,
                "schedulerName": config.scheduler_name,
                "nodeSelector": config.node_selector,
                "affinity": config.affinity,
                "tolerations": _tolerations(config.tolerations, task.resources.gpus),
                "imagePullSecrets": pull_secrets_of(config, task.pull_secrets),
                "securityContext": pod_security(config, has_storage=task.storage_directory is not None),
                "containers": [_container(task, config, mounts)],
                "volumes": volumes,
            }
        ),
    }


def _container(task: PodTask, config: PodConfig, mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    given = task.executor.container
    body = {
        "name": MAIN,
        "image": task.image,
        "imagePullPolicy": config.image_pull_policy,
        "command": [_literal(word) for word in given.entrypoint],
        "args": [_literal(word) for word in given.command],
        "env": [_variable(task, name, value) for name, value in task.environment.items()],
        "resources": task.resources.body(),
        "securityContext": container_security(config),
        # The end of the output would stand in the pod, for all to read, with the secrets that it may hold.
        "terminationMessagePolicy": None if task.secrets else "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return _without_nothing(body)


def _variable(task: PodTask, name: str, value: str) -> dict[str, Any]:
    if (key := task.secrets.get(name)) is None:
        return {"name": name, "value": _literal(value)}
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": task.name, "key": key}}}


def _literal(text: str) -> str:
    """A text of which the kubelet makes that text: it replaces `$(NAME)`, and `$$` by `$`."""
    return text.replace("$", "$$")


def _deadline_seconds(config: PodConfig) -> int:
    """A safety net behind the limits of the step's runner (choices: pod deadline)."""
    limits = (config.ttl_seconds_before_active, config.ttl_seconds_image_pull, config.ttl_seconds_active)
    return max(1, min(sum(limits), _MOST_SECONDS))


def _tolerations(given: Sequence[Mapping[str, Any]], gpus: int) -> list[dict[str, Any]]:
    """The profile's; one that is not empty gets one for GPUs where the step has some (configuration contract §5.3)."""
    found = [dict(each) for each in given]
    if found and gpus and not any(each.get("key") == GPU for each in found):
        found.append(dict(_GPU_TOLERATION))
    return found


def pull_secrets_of(config: PodConfig, platform: Sequence[str]) -> list[dict[str, str]]:
    """The `imagePullSecrets` of a pod.

    :param platform: names of the platform's
    """
    names = (*platform, *(secret.name for secret in config.image_pull_secrets))
    return [{"name": name} for name in dict.fromkeys(names)]


def pod_security(config: PodConfig, *, has_storage: bool) -> dict[str, Any]:
    """The `securityContext` of a pod.

    :param has_storage: whether it mounts the profile's claim
    """
    ours: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if has_storage:
        # Without a look at every file of a claim that all jobs share.
        ours |= {"fsGroup": _VOLUME_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return _overridden(ours, config.pod_security_context)


def container_security(config: PodConfig) -> dict[str, Any]:
    """The `securityContext` of a container."""
    given = config.container_security_context
    added = (given.get("capabilities") or {}).get("add") or []
    # The API refuses a container that must not have what it is given.
    has_more = given.get("privileged") is True or any(str(each).endswith("SYS_ADMIN") for each in added)
    return _overridden({} if has_more else {"allowPrivilegeEscalation": False}, given)


def _overridden(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The profile's keys win; a key that it sets to null is left to the cluster."""
    return {key: value for key, value in {**ours, **given}.items() if value is not None}


def _volumes(task: PodTask, config: PodConfig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": _SCRATCH, "emptyDir": {}},
        {
            "name": _CONFIG,
            "configMap": {"name": task.name, "items": [{"key": CONFIG_NAME, "path": _name_in_directory(task.places)}]},
        },
    ]
    if task.storage_directory is not None:
        found.append({"name": _STORAGE, "persistentVolumeClaim": {"claimName": config.storage.pvc_name}})
    if _has_memory(task, config):
        found.append({"name": _MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": task.resources.shm_size}})
    return found + [_additional(volume) for volume in config.storage.additional_volumes]


def _mounts(task: PodTask, config: PodConfig) -> list[dict[str, Any]]:
    places = task.places
    found: list[dict[str, Any]] = [
        {"name": _SCRATCH, "mountPath": places.scratch},
        {"name": _CONFIG, "mountPath": places.config_directory, "readOnly": True},
    ]
    if _relative(places) is None:
        one_file = {"mountPath": places.config_file, "subPath": CONFIG_NAME, "readOnly": True}
        found.append({"name": _CONFIG, **one_file})
    if task.storage_directory is not None:
        found.append({"name": _STORAGE, "mountPath": places.job_storage, "subPath": task.storage_directory})
    if _has_memory(task, config):
        found.append({"name": _MEMORY, "mountPath": _SHM_PATH})
    for mount in config.storage.additional_volume_mounts:
        body = {"name": mount.name, "mountPath": mount.mount_path, "subPath": mount.sub_path}
        found.append(_without_nothing({**body, "readOnly": mount.read_only or None}))
    return found


def _relative(places: Places) -> str | None:
    """The file of the configuration as seen from its directory; None where it does not lie in it."""
    path = posixpath.relpath(places.config_file, places.config_directory)
    return None if path.startswith("..") else path


def _name_in_directory(places: Places) -> str:
    return _relative(places) or CONFIG_NAME


def _has_memory(task: PodTask, config: PodConfig) -> bool:
    taken = (posixpath.normpath(mount.mount_path) for mount in config.storage.additional_volume_mounts)
    return task.resources.shm_size is not None and _SHM_PATH not in taken


def _additional(volume: PodVolume) -> dict[str, Any]:
    """A volume of the profile, in the API's words."""
    if (claim := volume.persistent_volume_claim) is not None:
        source = {"claimName": claim.claim_name, "readOnly": claim.read_only or None}
        return {"name": volume.name, "persistentVolumeClaim": _without_nothing(source)}
    if (empty := volume.empty_dir) is not None:
        source = {"medium": empty.medium, "sizeLimit": empty.size_limit}
        return {"name": volume.name, "emptyDir": {key: value for key, value in source.items() if value}}
    shown = volume.secret or volume.config_map
    assert shown is not None, "a volume has exactly one source"
    items = [_without_nothing(item.model_dump()) for item in shown.items]
    more = {"defaultMode": shown.default_mode, "optional": shown.optional, "items": items or None}
    if volume.secret is not None:
        return {"name": volume.name, "secret": _without_nothing({"secretName": volume.secret.secret_name, **more})}
    assert volume.config_map is not None
    return {"name": volume.name, "configMap": _without_nothing({"name": volume.config_map.name, **more})}


def _without_nothing(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not said: what the API has a default for."""
    return {key: value for key, value in body.items() if value is not None and value not in ("", [], {})}
