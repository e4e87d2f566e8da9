"""The persistent storage of jobs: a directory each in the profile's claim, `jobs/<workspace>/<run>`.

The kubelet makes it, as the `subPath` of the first pod that mounts it. A ConfigMap, the *keeper*, says that there is
one to be removed. Only to remove it a pod runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nemo_airflow_provider.backends.base import Workload
from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kube.metadata import metadata_of
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model import names

_INSIDE = "/nemo-job-storage"
_CLAIM, _DIRECTORY = "claim", "directory"
_REMOVAL_SECONDS = 60.0
_LOOK_SECONDS = 0.5
#: After which the cluster itself removes a removal that has ended.
_KEPT_SECONDS = 300


def directory_of(workspace: str, run_id: str, run_key: str) -> str:
    """Where in the claim a run has its storage; runs of one name do not share it."""
    return f"jobs/{workspace}/{run_id}.{run_key}"


def have(cluster: Cluster, claim: str, workload: Workload, directory: str) -> None:
    """See that the claim is there, and write down that the run has a directory in it.

    :raises StartError: there is no such claim
    """
    try:
        found = cluster.get("persistentvolumeclaims", claim)
    except Refused as error:
        if error.status != 403:
            raise
        found = {}  # who may not read it is told by its pod
    if found is None:
        raise StartError(
            f"Failed to assert the validity of the persistent volume claim {claim}. Namespace {cluster.namespace} has "
            "none of that name; see storage.pvc_name of the step's profile."
        )
    key = workload.key
    own = labels.of_run(workload.installation, key.workspace, key.run_id, key.run_key, labels.STORAGE)
    cluster.create(
        "configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata_of(keeper_name(key.run_id, key.run_key), own),
            "data": {_CLAIM: claim, _DIRECTORY: directory},
        },
    )


def keeper_name(run_id: str, run_key: str) -> str:
    """What keeps a run's storage is called in the cluster."""
    return names.storage_name(names.job_name_of(run_id) or run_id, run_key)


def remove(
    cluster: Cluster,
    keeper: Thing,
    own: dict[str, str],
    config: PodConfig,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Remove a run's directory, then its keeper.

    :param own: labels of what removes it
    :raises BackendError: it cannot be removed now
    """
    data = keeper.get("data") or {}
    if _CLAIM in data and cluster.get("persistentvolumeclaims", data[_CLAIM]) is not None:
        name = f"cleanup-{keeper['metadata']['name']}"[:63].rstrip("-")
        job = cluster.create("jobs", _removal(name, own, data, config)) or cluster.get("jobs", name)
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while job is not None and not _has(job, "Complete"):
            if _has(job, "Failed"):
                cluster.delete("jobs", name)
                raise BackendError(f"Job storage {data[_DIRECTORY]} of claim {data[_CLAIM]} cannot be removed: {name}")
            if time.monotonic() > deadline:
                raise BackendError(f"Job storage {data[_DIRECTORY]} is not removed yet; the next sweep looks again.")
            sleep(_LOOK_SECONDS)
            job = cluster.get("jobs", name)
        cluster.delete("jobs", name)
    cluster.delete("configmaps", keeper["metadata"]["name"])


def _removal(name: str, own: dict[str, str], data: dict[str, str], config: PodConfig) -> dict[str, Any]:
    container = {
        "name": "cleanup",
        "image": config.storage.volume_permissions_image,
        "imagePullPolicy": config.image_pull_policy or "IfNotPresent",
        "command": ["rm", "-rf", f"{_INSIDE}/{data[_DIRECTORY]}"],
        "volumeMounts": [{"name": "storage", "mountPath": _INSIDE}],
        "securityContext": {"allowPrivilegeEscalation": False},
        "resources": config.resources.model_dump(include={"requests", "limits"}, exclude_none=True),
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "serviceAccountName": config.service_account_name,
        "imagePullSecrets": [{"name": secret.name} for secret in config.image_pull_secrets],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": config.tolerations,
        "nodeSelector": config.node_selector,
        "containers": [container],
        "volumes": [{"name": "storage", "persistentVolumeClaim": {"claimName": data[_CLAIM]}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata_of(name, own),
        "spec": {
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": metadata_of(None, own), "spec": pod},
        },
    }


def _has(job: Thing, condition: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
