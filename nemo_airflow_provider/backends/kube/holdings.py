"""What a namespace keeps of an installation, for the sweep."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube import storage
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kube.control import is_final, is_orphan, may_run, was_asked
from nemo_airflow_provider.backends.kube.metadata import key_of, own_of, run_of
from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from nemo_airflow_provider.model.names import WorkloadKey


class KubeHoldings(SupportsSweep):
    """The power to be swept.

    :param config: of the profile
    :param kind: of what makes pods, a key of `cluster.PLACES`
    :param pull_secrets: the platform's, by name
    """

    def __init__(self, config: PodConfig, cluster: Cluster, kind: str, pull_secrets: Sequence[str] = ()) -> None:
        self._config = config
        self._cluster = cluster
        self._kind = kind
        self._pull_secrets = pull_secrets
        #: Until when this sweep waits for removals, by the monotonic clock.
        self._patience_ends: float | None = None

    def scope(self) -> str:
        """See `OverEngine.scope`: a namespace of the worker's own cluster, or of a connection."""
        connection = self._config.kubernetes_conn_id
        where = f"Kubernetes connection {connection}" if connection else "Kubernetes of this host"
        return f"{where}, namespace {self._config.namespace or 'by default'}, {self._kind}"

    def speaks_for(self, engine: str) -> bool:
        """See `SupportsSweep.speaks_for`."""
        return engine == self._cluster.identity()

    def held_jobs(self, installation: str) -> Iterator[HeldJob]:
        """See `SupportsSweep.held_jobs`."""
        self._patience_ends = None
        wanted = labels.of_installation(installation)
        jobs: dict[tuple[str, str, str], list[WorkloadKey]] = {}
        for kind in (self._kind, "pods", "configmaps", "secrets"):
            for thing in self._cluster.list(kind, wanted):
                if (run := run_of(thing)) is None or _goes(thing, kind):
                    continue
                found = jobs.setdefault(run, [])
                if kind in (self._kind, "pods") and (key := key_of(thing)) is not None and key not in found:
                    found.append(key)
        for run, keys in jobs.items():
            yield HeldJob(*run, workloads=tuple(keys))

    def remove_job(self, workspace: str, run_id: str, run_key: str) -> bool:
        """See `SupportsSweep.remove_job`."""
        run = (workspace, run_id, run_key)
        wanted = labels.of_everything(run_key)
        owners, pods = (
            [thing for thing in self._of_run(kind, run, wanted) if own_of(thing)[labels.TYPE] == labels.TASK]
            for kind in (self._kind, "pods")
        )
        if any(map(may_run, pods)) or any(_may_begin(owner, pods) for owner in owners):
            return False
        makers = {owner["metadata"]["uid"] for owner in owners}
        for kind in (self._kind, "pods", "secrets"):
            for thing in self._of_run(kind, run, wanted):
                if own_of(thing)[labels.TYPE] == labels.TASK and _is_of(thing, makers):
                    self._remove(kind, thing)
        for thing in self._of_run("configmaps", run, wanted):
            own = own_of(thing)
            if own[labels.TYPE] == labels.STORAGE:
                own = {**own, labels.TYPE: labels.REMOVAL}
                storage.remove(
                    self._cluster, thing, own, self._config, self._pull_secrets, seconds=self._patience_seconds()
                )
            elif _is_of(thing, makers):
                self._remove("configmaps", thing)
        return True

    def _patience_seconds(self) -> float:
        """What is left of it: one removal that hangs must not take the time of a whole sweep, nor several of them."""
        now = time.monotonic()
        if self._patience_ends is None:
            self._patience_ends = now + storage.REMOVAL_SECONDS
        return max(0.0, self._patience_ends - now)

    def _of_run(self, kind: str, run: tuple[str, str, str], wanted: dict[str, str]) -> list[Thing]:
        found = self._cluster.list(kind, wanted)
        return [thing for thing in found if run_of(thing) == run and labels.TYPE in own_of(thing)]

    def _remove(self, kind: str, thing: Thing) -> None:
        metadata = thing["metadata"]
        self._cluster.delete(kind, metadata["name"], uid=metadata["uid"])


def _goes(thing: Thing, kind: str) -> bool:
    """Whether an object is being removed, or goes with what owns it."""
    return "deletionTimestamp" in thing["metadata"] or (kind == "pods" and not is_orphan(thing))


def _is_of(thing: Thing, makers: Collection[str]) -> bool:
    """Whether nothing owns an object, or one of these does: of the same run, a profile of another backend may have made
    others, which go with theirs.

    :param makers: uids
    """
    owners = thing["metadata"].get("ownerReferences") or []
    return not owners or any(owner["uid"] in makers for owner in owners)


def _may_begin(owner: Thing, pods: Sequence[Thing]) -> bool:
    """Whether what makes pods has made none yet, and still will."""
    if was_asked(owner) or is_final(owner):
        return False
    task = own_of(owner)[labels.TASK_ID]
    return all(own_of(pod).get(labels.TASK_ID) != task for pod in pods)
