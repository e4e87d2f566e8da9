"""The backend, where the cluster changes between two questions."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Chunk, Site
from nemo_airflow_provider.backends.kube import watch as watch_module
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.watch import Watch
from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
from tests.unit.backends.kube import make, pods

WORKLOAD = make.workload()
JOB = make.job(WORKLOAD)
JOB["metadata"]["uid"] = "job-uid"


def pod(phase: str, *containers: dict[str, Any]) -> dict[str, Any]:
    found = pods.pod(phase, *containers)
    return {**found, "metadata": {**JOB["spec"]["template"]["metadata"], **found["metadata"]}}


CREATED = pod("Pending", pods.waits("ContainerCreating"))
COMPLETED = pod("Succeeded", pods.ended(0))


class Api:
    """A cluster whose pods are others at each look; the last stay.

    :param looks: what lists of pods bring, one after the other
    """

    shown_url = "https://cluster"
    namespace = None

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self.looks = list(looks)
        self.questions = 0

    def ask(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        assert method == "GET"
        self.questions += 1
        kind, _, name = path.partition("/namespaces/")[2].partition("/")[2].partition("/")
        if kind == "jobs" and name == JOB["metadata"]["name"]:
            return JOB
        if kind != "pods":
            return {"metadata": {}, "items": []}
        if not name:
            return {"metadata": {}, "items": self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]}
        if not (now := self.looks[0]):
            raise Refused("no", 404, "no", "NotFound")
        return now[0]

    @contextmanager
    def opened(self, _: str, path: str, *__: Any, **___: Any) -> Iterator[io.BytesIO]:
        assert path.endswith("/log")
        yield io.BytesIO(b"2026-12-03T05:38:09.000000001Z said\n")


@pytest.mark.parametrize("before", [[], [CREATED]], ids=["no pod", "a pod that is made"])
def test_output_of_what_runs_and_ends_between_two_looks(before: list[dict[str, Any]]) -> None:
    api = Api(before, [COMPLETED])
    backend = KubernetesJobBackend(make.profile(namespace="nemo"), Site(connect=lambda *_: api))
    chunks = [chunk for chunk in backend.read_logs(WORKLOAD.key, None, threading.Event()) if chunk is not None]
    assert [chunk.data for chunk in chunks] == [b"said\n"]


def reader_of_a_waiting_pod() -> tuple[Api, Watch, Iterator[Chunk | None]]:
    """One that has looked once, and is told of changes."""
    api = Api([CREATED], [COMPLETED])
    backend = KubernetesJobBackend(make.profile(namespace="nemo"), Site(connect=lambda *_: api))
    watch = backend._pods._watches[WORKLOAD.key] = Watch(backend._cluster, {})
    watch.is_open = True
    chunks = backend.read_logs(WORKLOAD.key, None, threading.Event())
    assert next(chunks) is None
    return api, watch, chunks


@pytest.mark.parametrize("end", [False, True], ids=["a change is told", "nobody listens any more"])
def test_a_pod_that_waits_is_not_asked_for_again_until_something_changes(
    monkeypatch: pytest.MonkeyPatch, end: bool
) -> None:
    monkeypatch.setattr(watch_module, "SIGN_OF_LIFE_SECONDS", 0.01)
    api, watch, chunks = reader_of_a_waiting_pod()
    asked = api.questions
    assert [next(chunks) for _ in range(10)] == [None] * 10
    assert api.questions == asked
    if end:
        watch.end()
    else:
        watch.changes += 1
    assert [chunk.data for chunk in chunks if chunk is not None] == [b"said\n"]


def test_where_changes_are_not_told_any_more_a_pod_is_asked_for() -> None:
    _, watch, chunks = reader_of_a_waiting_pod()
    watch.is_open = False
    assert [chunk.data for chunk in chunks if chunk is not None] == [b"said\n"]
