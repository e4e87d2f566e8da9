"""The persistent storage of jobs: a directory each in the profile's claim, `jobs/<workspace>/<run>`.

The kubelet makes it, as the `subPath` of the first pod that mounts it. A ConfigMap, the *keeper*, says that there is
one to be removed. Only to remove it a pod runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.backends.base import Workload
from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kube.diagnosis import of_creation, of_pod
from nemo_airflow_provider.backends.kube.metadata import metadata_of, run_of
from nemo_airflow_provider.backends.kube.pod import container_security, pod_security, pull_secrets_of
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model import names

_CONTAINER, _INSIDE = "cleanup", "/nemo-job-storage"
_CLAIM, _DIRECTORY = "claim", "directory"
#: For how long one sweep waits for all removals that it begins.
REMOVAL_SECONDS = 60.0
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
            "metadata": metadata_of(keeper_name(key.run_id, key.run_key, claim), own),
            "data": {_CLAIM: claim, _DIRECTORY: directory},
        },
    )


def keeper_name(run_id: str, run_key: str, claim: str) -> str:
    """What keeps a run's storage in a claim is called in the cluster; its steps' profiles may name several."""
    return names.storage_name(names.job_name_of(run_id) or run_id, f"{run_key}\n{claim}")


def remove(
    cluster: Cluster,
    keeper: Thing,
    own: dict[str, str],
    config: PodConfig,
    pull_secrets: Sequence[str] = (),
    *,
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Remove a run's directory, then its keeper.

    :param own: labels of what removes it
    :param pull_secrets: the platform's, by name
    :param seconds: for which a removal that is begun now is waited for
    :raises BackendError: it cannot be removed now
    """
    data = keeper.get("data") or {}
    if _CLAIM in data and cluster.get("persistentvolumeclaims", data[_CLAIM]) is not None:
        # A keeper's whole name tells runs apart, and this is as long.
        name = f"cleanup{keeper['metadata']['name'].removeprefix('storage')}"
        removal = _removal(name, own, data, config, pull_secrets)
        made = cluster.create("jobs", removal)
        # One that is there had its time in an earlier sweep.
        there = made or cluster.get("jobs", name)
        if there is not None and run_of(there) == run_of(removal) and _image(there) != _image(removal):
            cluster.delete("jobs", name, uid=there["metadata"]["uid"])
            raise BackendError(f"Job {name} is made anew with another image; the next sweep looks again.")
        _await(cluster, removal, there, seconds if made else 0, sleep)
        cluster.delete("jobs", name)
    cluster.delete("configmaps", keeper["metadata"]["name"])


def _image(job: Thing) -> object:
    return job["spec"]["template"]["spec"]["containers"][0].get("image")


def _await(cluster: Cluster, wanted: Thing, job: Thing | None, seconds: float, sleep: Callable[[float], None]) -> None:
    """Return when a removal has completed.

    :raises BackendError: it has not within this time, or it has failed
    """
    name, (_, run_id, _) = wanted["metadata"]["name"], run_of(wanted) or ("", "", "")
    what = f"Job storage of run {run_id}"
    deadline = time.monotonic() + seconds
    while job is None or not _has(job, "Complete"):
        if job is None or run_of(job) != run_of(wanted):
            raise BackendError(f"{what} cannot be removed: Job {name} is gone, or somebody else's.")
        if _has(job, "Failed"):
            why = _why(cluster, job)
            cluster.delete("jobs", name)
            raise BackendError(f"{what} cannot be removed, Job {name} has failed: {why}")
        if time.monotonic() >= deadline:
            why = _why(cluster, job)
            raise BackendError(f"{what} is not removed yet, the next sweep looks again; Job {name}: {why}")
        sleep(_LOOK_SECONDS)
        job = cluster.get("jobs", name)


def _why(cluster: Cluster, job: Thing) -> str:
    """How far a removal has come, in the cluster's words."""

    def events_of(thing: Thing) -> list[Thing]:
        return cluster.list("events", fields=f"involvedObject.uid={thing['metadata']['uid']}")

    moment = datetime.now(UTC)
    pods = cluster.list("pods", {"batch.kubernetes.io/job-name": job["metadata"]["name"]})
    if not pods:
        return of_creation(events_of(job), moment)[0] or "it has no pod"
    pod = max(pods, key=lambda each: str(each["metadata"].get("creationTimestamp")))
    seen = of_pod(pod, events_of(pod), main=_CONTAINER, stopped=None, now=moment, pull_seconds=0)
    told = (seen.error or {}).get("termination_message")
    return f"{seen.message} {told or ''}".strip() if seen.message else f"its pod is {seen.phase}"


def _removal(
    name: str, own: dict[str, str], data: dict[str, str], config: PodConfig, pull_secrets: Sequence[str]
) -> dict[str, Any]:
    """As a step of the profile, as far as the namespace's rules may ask for it."""
    job, pod = config.job_metadata, config.pod_metadata
    container = {
        "name": _CONTAINER,
        "image": config.storage.volume_permissions_image,
        "imagePullPolicy": config.image_pull_policy or "IfNotPresent",
        "command": ["rm", "-rf", f"{_INSIDE}/{data[_DIRECTORY]}"],
        "volumeMounts": [{"name": "storage", "mountPath": _INSIDE}],
        "securityContext": container_security(config),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": config.resources.model_dump(include={"requests", "limits"}, exclude_none=True),
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "serviceAccountName": config.service_account_name,
        "imagePullSecrets": pull_secrets_of(config, pull_secrets),
        "securityContext": pod_security(config, has_storage=True),
        "tolerations": config.tolerations,
        "nodeSelector": config.node_selector,
        "affinity": config.affinity or None,
        "containers": [container],
        "volumes": [{"name": "storage", "persistentVolumeClaim": {"claimName": data[_CLAIM]}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata_of(name, own, job.labels, job.annotations),
        "spec": {
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": metadata_of(None, own, pod.labels, pod.annotations), "spec": spec},
        },
    }


def _has(job: Thing, condition: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
