"""Whether anything is still to come of a pod, and pauses that end when that may have changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.lifetime import Lifetime
from nemo_airflow_provider.backends.kube.watch import Watch
from tests.unit.backends.kube import pods


class Clusters:
    """One pod."""

    def __init__(self, pod: Mapping[str, Any] | None = None) -> None:
        self.pod = pod

    def get(self, kind: str, name: str) -> Mapping[str, Any] | None:
        assert (kind, name) == ("pods", "p")
        return self.pod


class Stop(threading.Event):
    """Keeps how long was waited for it, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return False


@pytest.mark.parametrize(
    ("pod", "is_over"),
    [
        (None, True),
        (pods.pod("Running", pods.runs()), False),
        (pods.pod("Succeeded", pods.ended(0)), True),
        (pods.pod("Running", pods.ended(0), pods.runs()), True),
    ],
)
def test_a_pod_is_over_with_its_task(pod: Mapping[str, Any] | None, is_over: bool) -> None:
    assert Lifetime(cast(Cluster, Clusters(pod)), "p", None, Stop()).is_over() is is_over


def test_a_pause_ends_with_a_change_that_was_told_since_the_last_question() -> None:
    watch = Watch(cast(Cluster, Clusters()), {})
    watch.is_open = True
    stop = threading.Event()
    life = Lifetime(cast(Cluster, Clusters()), "p", watch, stop)
    life.is_over()
    watch.changes += 1
    life.pause(3600)
    life.is_over()
    stop.set()
    life.pause(3600)


@pytest.mark.parametrize("is_there", [False, True], ids=["no watch", "a watch of an API that is away"])
def test_where_changes_are_not_told_a_pause_is_a_pause(is_there: bool) -> None:
    watch = Watch(cast(Cluster, Clusters()), {}) if is_there else None
    stop = Stop()
    life = Lifetime(cast(Cluster, Clusters()), "p", watch, stop)
    life.is_over()
    life.pause(0.5)
    assert stop.waits == [0.5]
