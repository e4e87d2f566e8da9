"""Parts of a cluster that go away while a step runs: it goes on, and no line of its output is lost or told twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.contract.test_backend import end, running
from tests.kube.pods import Pods, shell
from tests.stack.kubernetes import component
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("kubernetes", "owned_kubernetes")

COUNT = "i=0; while [ $i -lt {lines} ]; do echo $i; i=$((i+1)); sleep 0.02; done"


class Reading:
    """Reads all output of a workload, as the log pump does, whatever breaks off."""

    def __init__(self, backend: Backend, key: WorkloadKey) -> None:
        self._backend = backend
        self._key = key
        self.data = b""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        position: Any = None
        while not self._stop.is_set():
            with suppress(BackendError):
                for chunk in self._backend.read_logs(self._key, position, self._stop):
                    if chunk is not None:
                        self.data += chunk.data
                        position = chunk.end
                return
            self._stop.wait(0.2)

    def whole(self) -> bytes:
        """Everything; it ends by itself."""
        self._thread.join(120)
        assert not self._thread.is_alive(), self.data[-200:]
        return self.data


def patiently(look: Callable[[], Any]) -> Any:
    """The first answer of an API that may be away."""

    def answer() -> list[Any] | None:
        try:
            return [look()]
        except BackendError:
            return None

    [found] = wait_until(answer, 120, "the API", pause_seconds=0.3)  # type: ignore[misc]
    return found


def numbers(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(count))


@pytest.mark.parametrize(
    ("part", "seconds", "lines"), [("apiserver", 20, 1300), ("kubelet", 5, 400), ("containerd", 2, 400)]
)
def test_in_mid_step(kube: Pods, part: str, seconds: float, lines: int) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell(COUNT.format(lines=lines))))
    reading = Reading(kube.backend(), kube.key())
    running(kube, backend)
    kube.runs(backend)
    component(part).stop()
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            with suppress(BackendError):
                assert backend.observe(kube.key()).phase is Phase.RUNNING
            backend.wait(kube.key(), 0.5, threading.Event())
    finally:
        component(part).start()
    wait_until(
        lambda: not patiently(lambda: backend.observe(kube.key())).phase.lives, 120, "the end", pause_seconds=0.2
    )
    seen = patiently(lambda: backend.observe(kube.key()))
    assert (seen.phase, seen.exit_code, seen.fault) == (Phase.ENDED, 0, "user")
    assert reading.whole() == numbers(lines)


def test_an_api_that_is_away_is_told(kube: Pods) -> None:
    backend = kube.backend()
    component("apiserver").stop()
    try:
        with pytest.raises(BackendError, match="No answer from the Kubernetes API at https://"):
            backend.observe(kube.key())
        with pytest.raises(BackendError, match="No answer from the Kubernetes API"):
            backend.submit(kube.task(shell("true")))
    finally:
        component("apiserver").start()
    patiently(lambda: backend.submit(kube.task(shell("true"))))
    # The cluster's own controllers may be away for longer.
    wait_until(lambda: not backend.observe(kube.key()).phase.lives, 180, "the end", pause_seconds=0.5)
    assert end(kube, backend).exit_code == 0


def test_a_stop_that_the_kubelet_hears_late(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done")))
    running(kube, backend)
    kube.runs(backend)
    component("kubelet").stop()
    try:
        backend.stop(kube.key(), 3)
        assert backend.observe(kube.key()).phase is Phase.RUNNING
    finally:
        component("kubelet").start()
    seen = end(kube, backend)
    assert (seen.exit_code, seen.stopped) == (7, "asked")


def test_a_job_that_its_controller_sees_late(kube: Pods) -> None:
    backend = kube.backend()
    component("controller-manager").stop()
    try:
        backend.submit(kube.task(shell("true")))
        seen = backend.observe(kube.key())
        assert (seen.phase, seen.message) == (Phase.PENDING, "Waiting for pods to be created for this job")
    finally:
        component("controller-manager").start()
    assert end(kube, backend).exit_code == 0


def test_a_node_that_is_drained(kube: Pods) -> None:
    """Its pods are evicted, and others wait until it may be used again."""
    backend = kube.backend()
    backend.submit(kube.task(shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")))
    running(kube, backend)
    kube.runs(backend)
    [node] = kube.kubectl("get", "nodes", "-o", "name").split()
    name = node.removeprefix("node/")
    try:
        kube.kubectl("drain", name, "--force", "--delete-emptydir-data", "--pod-selector", f"job-name={kube.name()}")
        seen = end(kube, backend)
        assert (seen.phase, seen.exit_code, seen.fault) == (Phase.ENDED, 7, "platform")
        later = kube.key(start=1)
        backend.submit(kube.task(shell("true"), later))
        kube.seen(backend, later, "the scheduler's words", message=lambda text: "unschedulable" in str(text))
    finally:
        kube.kubectl("uncordon", name)
    assert end(kube, backend, later).exit_code == 0
