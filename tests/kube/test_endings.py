"""How workloads end that do not end by themselves, and whose fault that is."""

from __future__ import annotations

import json
import time

import pytest

from nemo_airflow_provider.backends.base import Phase
from tests.contract.test_backend import LOOP, end, running, text
from tests.kube.pods import Pods, shell

pytestmark = pytest.mark.needs("kubernetes")

POLITE = f"trap 'echo bye; exit 7' TERM; echo ready; {LOOP}"


def test_out_of_memory_names_the_limit(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell("tail /dev/zero", resources={"limits": {"memory": "20Mi"}})))
    seen = end(kube, backend)
    assert (seen.exit_code, seen.fault) == (137, "user")
    assert seen.message == "Job exited with non-zero code 137: the kernel killed it at its memory limit of 20Mi"


def test_an_eviction_is_a_fault_of_the_platform(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell(POLITE)))
    running(kube, backend)
    kube.runs(backend)
    pod = kube.pod()["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": kube.namespace}}
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{pod}/eviction"
    kube.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    seen = end(kube, backend)
    assert (seen.phase, seen.fault, seen.stopped) == (Phase.ENDED, "platform", None)
    assert seen.error is not None and seen.error["reason"] == "EvictionByEvictionAPI"
    assert seen.exit_code == 7


@pytest.mark.parametrize("code", [0, 7])
def test_a_pod_that_somebody_deletes_is_a_fault_of_the_platform(kube: Pods, code: int) -> None:
    """Whatever a process makes of being told to end: it has not completed."""
    backend = kube.backend()
    backend.submit(kube.task(shell(POLITE.replace("exit 7", f"exit {code}"))))
    running(kube, backend)
    kube.runs(backend)
    kube.kubectl("delete", "pod", kube.pod()["metadata"]["name"], "--wait=false")
    seen = end(kube, backend)
    assert (seen.phase, seen.fault) == (Phase.ENDED, "platform")
    assert (seen.exit_code, seen.stopped) == (code, None if code else "interrupted")
    # What another process, which saw nothing of it, makes of what is left.
    later = kube.backend().observe(kube.key())
    assert (later.phase, later.fault) == (Phase.ENDED, "platform")


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_a_job_that_somebody_deletes_is_lost(kube: Pods, cascade: str) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell(POLITE)))
    running(kube, backend)
    kube.kubectl("delete", "job", kube.name(), f"--cascade={cascade}", "--wait=false")
    seen = end(kube, backend)
    assert seen.phase in (Phase.ABSENT, Phase.ENDED)
    assert seen.exit_code != 0


def test_names_that_differ_in_the_last_letter(kube: Pods) -> None:
    backend = kube.backend()
    mine = [kube.key(f"{'a' * 62}{letter}") for letter in "bc"]
    odd = [kube.key(step) for step in ("a@b+c.d_e", "trailing.", "trailing_")]
    for number, key in enumerate([*mine, *odd]):
        backend.submit(kube.task(shell(f"echo {number}"), key))
    for number, key in enumerate([*mine, *odd]):
        assert end(kube, backend, key).exit_code == 0
        assert text(backend, key) == b"%d\n" % number
        assert list(backend.find(key)) == [key]


def test_a_stop_at_the_moment_of_the_end(kube: Pods) -> None:
    """Who was told to end was asked; within the second in which both happen nobody can tell."""
    backend = kube.backend()
    keys = [kube.key(start=number) for number in range(6)]
    for number, key in enumerate(keys):
        count = f"i=0; while [ $i -lt {8 + number} ]; do sleep 0.1; i=$((i+1)); done"
        backend.submit(kube.task(shell(f"trap 'exit 9' TERM; {count}"), key))
    for key in keys:
        kube.seen(backend, key, "it to run or to end", phase=lambda phase: phase is not Phase.PENDING)
    for key in keys:
        backend.stop(key, 3)
    for key in keys:
        seen = end(kube, backend, key)
        assert (seen.exit_code, seen.stopped) in [(0, None), (0, "asked"), (9, "asked")], seen


def test_a_process_that_does_not_listen_is_killed_after_its_grace(kube: Pods) -> None:
    backend = kube.backend(graceful_shutdown_timeout_seconds=2)
    backend.submit(kube.task(shell(f"trap '' TERM; echo ready; {LOOP}")))
    running(kube, backend)
    asked = time.monotonic()
    backend.stop(kube.key(), 2)
    seen = end(kube, backend)
    assert (seen.exit_code, seen.stopped) == (137, "asked")
    assert time.monotonic() - asked >= 2


def test_the_clusters_own_deadline(kube: Pods) -> None:
    limits = {"ttl_seconds_before_active": 1, "ttl_seconds_image_pull": 0, "ttl_seconds_active": 2}
    backend = kube.backend(**limits)
    backend.submit(kube.task(shell(POLITE)))
    seen = end(kube, backend)
    assert (seen.phase, seen.stopped, seen.exit_code) == (Phase.ENDED, "ttl", 7)


def test_without_any_grace_an_end_is_told_all_the_same(kube: Pods) -> None:
    backend = kube.backend(graceful_shutdown_timeout_seconds=0)
    backend.submit(kube.task(shell(f"trap '' TERM; echo ready; {LOOP}")))
    running(kube, backend)
    kube.runs(backend)
    backend.stop(kube.key(), 0)
    for each in (backend, kube.backend()):
        seen = end(kube, each)
        assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 137, "asked")
        assert text(each, kube.key()) == b"ready\n"
