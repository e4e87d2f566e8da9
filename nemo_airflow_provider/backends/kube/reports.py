"""What a cluster says of itself, and what a profile lacks there: asked by `airflow nemo check`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kube.holdings import KubeHoldings
from nemo_airflow_provider.backends.powers import EngineRemark, EngineReport, SupportsProbe

#: Schedulers that are told by the API group of their objects, and by what begins the label with a queue of theirs.
_SCHEDULERS = {
    "kai-scheduler": ("KAI", "scheduling.run.ai", ("kai.scheduler/queue", "runai/queue")),
}
#: Verbs on resources that the worker needs in its namespace; `docs/kubernetes/rbac.yaml` gives just these.
RIGHTS: tuple[tuple[str, str, str], ...] = (
    *((verb, "", "pods") for verb in ("get", "list", "watch", "patch", "delete")),
    ("get", "", "pods/log"),
    *((verb, "", "configmaps") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "", "secrets") for verb in ("get", "list", "create", "patch", "delete")),
    ("list", "", "events"),
    ("get", "", "namespaces"),
    ("get", "", "persistentvolumeclaims"),
    *((verb, "batch", "jobs") for verb in ("get", "list", "create", "patch", "delete")),
)


class KubeReports(KubeHoldings, SupportsProbe):
    """The powers to be probed and examined.

    :param rights: beside `RIGHTS`, of what makes the pods
    """

    rights: Sequence[tuple[str, str, str]] = ()

    def probe(self) -> None:
        """See `SupportsProbe.probe`."""
        self._cluster.access.ask("GET", "/version")

    def examined(self) -> tuple[object, ...]:
        """See `SupportsProbe.examined`."""
        config = self._config
        queues = (config.job_metadata.labels, config.pod_metadata.labels) if config.scheduler_name else ()
        return (config.storage.pvc_name, config.scheduler_name, *queues)

    def examine(self, *, for_gpus: bool) -> EngineReport:  # noqa: ARG002 - who has GPUs is the scheduler's to know
        """See `SupportsProbe.examine`."""
        access, namespace = self._cluster.access, self._cluster.namespace
        version = access.ask("GET", "/version")
        remarks = list(_rights_remarks(self._cluster, (*RIGHTS, *self.rights)))
        if not remarks:
            remarks += _namespace_remarks(self._cluster) or _claim_remarks(self._cluster, self._config)
        if self._config.scheduler_name in _SCHEDULERS:
            groups = {group["name"] for group in access.ask("GET", "/apis")["groups"]}
            remarks += scheduler_remarks(self._config, groups)
        engine = f"Kubernetes {version['gitVersion']} at {access.shown_url}, namespace {namespace}"
        return EngineReport(engine, tuple(remarks))


def scheduler_remarks(config: PodConfig, groups: Collection[str]) -> Iterator[EngineRemark]:
    """What a profile with a scheduler of its own lacks.

    :param groups: names of the API groups that the cluster has
    """
    name, group, queue_labels = _SCHEDULERS[config.scheduler_name]
    if group not in groups:
        yield EngineRemark(
            f"The {name} scheduler ({config.scheduler_name}) is not installed there: pods that name it are never "
            "scheduled",
            f"Install it (the cluster has no API group {group}), or leave scheduler_name out.",
            fails_steps=True,
        )
    for place, metadata in (("job_metadata", config.job_metadata), ("pod_metadata", config.pod_metadata)):
        if not any(label.startswith(queue_labels) for label in metadata.labels):
            yield EngineRemark(
                f"{place}.labels names no queue of the {name} scheduler",
                f"Add {queue_labels[0]}-name: <queue> to {place}.labels; both the job and its pods must have it.",
                fails_steps=True,
            )


def _rights_remarks(cluster: Cluster, rights: Sequence[tuple[str, str, str]]) -> Iterator[EngineRemark]:
    missing: dict[str, list[str]] = {}
    for verb, group, resource in rights:
        if not _may(cluster, verb, group, resource):
            missing.setdefault(f"{resource}.{group}" if group else resource, []).append(verb)
    if missing:
        said = "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in missing.items())
        yield EngineRemark(
            f"The worker may not {said} in namespace {cluster.namespace}",
            "Give its service account the rights of docs/kubernetes/rbac.yaml.",
            fails_steps=True,
        )


def _may(cluster: Cluster, verb: str, group: str, resource: str) -> bool:
    resource, _, part = resource.partition("/")
    wanted: dict[str, Any] = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": resource}
    if resource == "namespaces":
        wanted["name"] = cluster.namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**wanted, **({"subresource": part} if part else {})}},
    }
    answer: Mapping[str, Any] = cluster.access.ask("POST", f"/apis/{body['apiVersion']}/selfsubjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def _namespace_remarks(cluster: Cluster) -> list[EngineRemark]:
    """An administrator may do everything in a namespace that is not there."""
    if cluster.get("namespaces", cluster.namespace) is not None:
        return []
    message = f"There is no namespace '{cluster.namespace}'"
    return [EngineRemark(message, "Make it, or name another in the profile's namespace.", fails_steps=True)]


def _claim_remarks(cluster: Cluster, config: PodConfig) -> list[EngineRemark]:
    claim = config.storage.pvc_name
    if not claim:
        return []
    found = cluster.get("persistentvolumeclaims", claim)
    if found is None:
        message = f"Namespace {cluster.namespace} has no claim '{claim}': steps with persistent job storage fail"
        return [EngineRemark(message, "Make it, or name another in storage.pvc_name.", fails_steps=True)]
    if "ReadWriteMany" in (found["spec"].get("accessModes") or []):
        return []
    message = f"Claim '{claim}' can be mounted on one node at a time only"
    remedy = "Use one with access mode ReadWriteMany where jobs run on several nodes."
    return [EngineRemark(message, remedy, fails_steps=False)]
