"""The pods of workloads in one namespace: those that are there, and what was last told of those that are gone."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.metadata import key_of
from nemo_airflow_provider.backends.kube.watch import Watch
from nemo_airflow_provider.model.names import WorkloadKey


class Pods:
    """Found by their labels; and watched, each workload's by one connection."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watches: dict[WorkloadKey, Watch] = {}

    def watch(self, key: WorkloadKey) -> Watch:
        """That of a workload; begun, if need be."""
        if (watch := self._watches.get(key)) is None:
            watch = self._watches[key] = Watch(self._cluster, labels.of_task(key))
            watch.start()
        return watch

    def watched(self, key: WorkloadKey) -> Watch | None:
        """The watch of a workload, if it has one."""
        return self._watches.get(key)

    def forget(self, key: WorkloadKey) -> None:
        """Watch it no longer; what was told of it is lost."""
        if (watch := self._watches.pop(key, None)) is not None:
            watch.end()

    def present(self, key: WorkloadKey) -> list[Thing]:
        """Those that the cluster has.

        :raises BackendError: it does not answer
        """
        return [pod for pod in self._cluster.list("pods", labels.of_task(key)) if key_of(pod) == key]

    def present_and_gone(self, key: WorkloadKey) -> tuple[list[Thing], list[Thing]]:
        """Those that the cluster has; and those that it had while they were watched, as they were last seen.

        :raises BackendError: it does not answer
        """
        watch = self._watches.get(key)
        # Asked first: what is not in the list that comes after it is there no longer.
        known = watch.known() if watch is not None else set()
        present = self.present(key)
        gone = known - {pod["metadata"]["uid"] for pod in present}
        return present, watch.last(gone) if watch is not None and gone else []

    def events(self, uids: Iterable[str]) -> list[Thing]:
        """Those of some objects, newest last.

        :raises BackendError: it does not answer
        """
        found = [event for uid in uids for event in self._cluster.list("events", fields=f"involvedObject.uid={uid}")]
        return sorted(found, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
