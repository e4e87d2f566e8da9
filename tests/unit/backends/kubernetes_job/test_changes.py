"""What the backend does where the cluster changes between two questions, and where a node is lost."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Chunk, Phase
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.metadata import STOP_ASKED
from nemo_airflow_provider.backends.kube.pods import Pods
from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
from nemo_airflow_provider.errors import OutputLost
from nemo_airflow_provider.model import names
from tests.unit.backends.kube import make, pods


class Clusters:
    """A cluster that has what a test says, and notes what it is asked to change.

    :param pods: what is there at each question for them; the last stays
    """

    namespace = "nemo"

    def __init__(self, job: dict[str, Any] | None, *pods: dict[str, Any]) -> None:
        self.job = job
        self.pods = list(pods)
        self.done: list[tuple[str, str, dict[str, Any]]] = []

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return {"jobs": self.job, "pods": self.pods[0]}.get(kind)

    def list(self, kind: str, labels: Any = None, fields: Any = None) -> list[dict[str, Any]]:
        if kind != "pods":
            return []
        return [self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]]

    def patch(self, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.done.append(("patch", kind, body))
        return body

    def delete(self, kind: str, name: str, *, version: str | None = None, **_: Any) -> bool:
        self.done.append(("delete", kind, {"version": version}))
        return kind != "pods" or version == self.pods[0]["metadata"]["resourceVersion"]

    def log(self, *_: Any) -> Any:
        raise Refused("The API refuses: dial tcp: i/o timeout", 500, "dial tcp: i/o timeout", "InternalError")


def of_workload(thing: dict[str, Any], version: str) -> dict[str, Any]:
    metadata = make.job(make.workload())["metadata"]
    own = {"labels": metadata["labels"], "annotations": metadata["annotations"], "resourceVersion": version}
    return {**thing, "metadata": {**thing["metadata"], **own}}


def backend(cluster: Clusters) -> KubernetesJobBackend:
    made = KubernetesJobBackend(make.profile(namespace="nemo"), make.SITE)
    made._cluster = cluster  # type: ignore[assignment]
    made._pods = Pods(made._cluster)
    return made


def job() -> dict[str, Any]:
    metadata = {"name": names.engine_name(make.KEY), "uid": "job-uid"}
    return of_workload({"metadata": metadata, "spec": {}, "status": {}}, "1")


def test_a_pod_that_begins_while_it_is_kept_from_it_is_ended_as_one_that_runs() -> None:
    """Its removal would take exit code and output with it."""
    waiting = of_workload(pods.pod("Pending", pods.waits("ContainerCreating")), "1")
    running = of_workload(pods.pod("Running", pods.runs(), terminationGracePeriodSeconds=30), "2")
    cluster = Clusters(job(), waiting, running)
    backend(cluster).stop(make.KEY, 30)
    suspended, refused, asked = cluster.done
    assert suspended[1] == "jobs" and suspended[2]["spec"] == {"suspend": True}
    assert refused == ("delete", "pods", {"version": "1"})
    assert asked[1] == "pods" and asked[2]["spec"] == {"activeDeadlineSeconds": 1}
    assert STOP_ASKED in asked[2]["metadata"]["annotations"]


def test_the_output_of_a_pod_whose_node_is_lost_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_airflow_provider.backends.kube.logs._REFUSED_SECONDS", 0.2)
    monkeypatch.setattr("nemo_airflow_provider.backends.kube.logs.SIGN_OF_LIFE_SECONDS", 0.1)
    lost = of_workload(pods.pod("Running", pods.runs(), removed=(pods.at(0), 30)), "1")
    one = backend(Clusters(job(), lost))
    assert one.observe(make.KEY).phase is Phase.ENDED
    found: list[Chunk | None] = []
    with pytest.raises(OutputLost, match="i/o timeout"):
        found += one.read_logs(make.KEY, None, Event())
