"""Jobs in pods, where the cluster takes them away, has no room for them or no image, and where their secrets are."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any

import pytest

from tests.contract.jobs import Gate, KubernetesHarness
from tests.e2e.lab import Job, Lab
from tests.stack import kubernetes
from tests.stack.airflow import wait_until
from tests.stack.kubernetes import held, kubectl

pytestmark = pytest.mark.needs("kubernetes")

#: More than any node has.
TOO_MANY = 4000


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> KubernetesHarness:
    return KubernetesHarness(lab)


def waiting(gate: Gate) -> str:
    """Says `begun`, ends well once the gate is open, and at SIGTERM at once."""
    return f"trap 'exit 143' TERM; echo begun; until {gate.condition}; do sleep 0.1; done"


def evict(pod: str) -> None:
    """As `kubectl drain` does."""
    metadata = {"name": pod, "namespace": kubernetes.shared().namespace}
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    kubectl("create", "--raw", f"/api/v1/namespaces/{metadata['namespace']}/pods/{pod}/eviction", "-f", "-", stdin=body)


def delete(pod: str) -> None:
    kubectl("--namespace", kubernetes.shared().namespace, "delete", "pod", pod, "--wait=false")


def said(job: Job) -> list[str]:
    """Our own sentences, and the output, in Airflow's log of the step."""
    return [str(entry["event"]) for entry in job.task_log("work")]


def test_a_pod_that_is_taken_away_is_started_again(cluster: KubernetesHarness) -> None:
    """As often as the profile's `platform_retries` allows."""
    gate = cluster.gate()
    ways = {"evicted": evict, "removed": delete, "once": evict}
    roles = {"once": "impatient"}
    jobs = {
        name: cluster.lab.submit(name, cluster.step("work", waiting(gate), roles.get(name, "default"))) for name in ways
    }
    for name, take_away in ways.items():
        jobs[name].wait_for_line("begun", 120)
        [pod] = kubernetes.running(jobs[name].name)
        take_away(pod)
    once = jobs.pop("once").wait("error")
    assert once["error_details"]["message"].startswith("Pod was evicted")
    assert once["error_details"]["reason"] == "EvictionByEvictionAPI"
    for name, job in jobs.items():
        wait_until(lambda: job.messages() == ["begun", "begun"], 120, f"the second start of {name}")  # noqa: B023
    gate.open()
    for name, job in jobs.items():
        job.wait("completed", timeout_seconds=120)
        first, second = job.steps()[0]["tasks"]
        assert (first["status"], second["status"]) == ("error", "completed")
        message = first["error_details"]["message"]
        assert message.startswith({"evicted": "Pod was evicted", "removed": "Pod was deleted"}[name])
        assert f"{message}; it is started again" in said(job)
        assert len(held(job.name, "jobs")) <= 1


def test_a_pod_without_room_says_why_and_goes_with_a_cancel(cluster: KubernetesHarness) -> None:
    executor = {**cluster.executor("true", "default"), "provider": "gpu", "resources": {"num_gpus": TOO_MANY}}
    job = cluster.lab.submit("room", {"name": "work", "executor": executor})

    def told() -> bool:
        return "Insufficient nvidia.com/gpu" in (job.get()["status_details"] or {}).get("message", "")

    wait_until(told, 60, "the scheduler's words")
    assert job.get()["status"] == job.steps()[0]["status"] == "pending"
    assert job.steps()[0]["status_details"]["reason"] == "Unschedulable"
    wait_until(lambda: any("Insufficient nvidia.com/gpu" in line for line in said(job)), 60, "the same in the task log")
    job.cancel()
    job.wait("cancelled")
    wait_until(lambda: not held(job.name, "pods"), 60, "the end of its pod")
    wait_until(lambda: not held(job.name, "jobs"), 60, "the end of its Job")


def test_an_image_that_never_comes(cluster: KubernetesHarness) -> None:
    executor = cluster.executor("true", "impatient")
    executor["container"]["image"] = "nemo-test/absent:1"
    job = cluster.lab.submit("image", {"name": "work", "executor": executor})
    ended = job.wait("error", timeout_seconds=120)
    message = ended["error_details"]["message"]
    assert message.startswith("Image pull did not succeed within 5s (ErrImagePull")
    assert "nemo-test/absent:1" in message
    wait_until(lambda: not held(job.name, "pods"), 60, "the end of its pod")


def test_a_secret_is_in_its_own_object_alone(cluster: KubernetesHarness) -> None:
    value, name = f"value-{secrets.token_hex(8)}", cluster.lab.name("kube")
    cluster.lab.airflow("POST", "/variables", {"key": f"nemo_secret.default.{name}", "value": value})
    gate = cluster.gate()
    environment: list[dict[str, Any]] = [{"name": "TOKEN", "from_secret": {"name": name}}]
    script = f'echo "token $TOKEN"; echo "${{#TOKEN}} bytes"; {waiting(gate)}'
    job = cluster.lab.submit("secret", cluster.step("work", script, environment=environment))
    job.wait_for_line("begun", 120)
    things = {kind: held(job.name, kind) for kind in ("jobs", "pods", "configmaps", "secrets")}
    [secret] = things.pop("secrets")
    assert value in {base64.b64decode(each).decode() for each in secret["data"].values()}
    told = json.dumps(things)
    assert value not in told and base64.b64encode(value.encode()).decode() not in told
    gate.open()
    job.wait("completed")
    assert job.messages() == ["token ***", f"{len(value)} bytes", "begun"]
    assert value not in json.dumps([job.get(), job.steps(), job.task_log("work")])
    wait_until(lambda: not held(job.name, "secrets"), 60, "the end of its Secret")
