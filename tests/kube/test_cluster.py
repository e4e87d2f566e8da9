"""What tests of the Kubernetes backends take for granted of the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stack import kubernetes
from tests.stack.kubernetes import Refused, component, kubectl
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("kubernetes")


@pytest.fixture
def namespace() -> Iterator[str]:
    with kubernetes.namespace() as name:
        yield name


def _run(namespace: str, name: str, script: str, **spec: Any) -> None:
    container = {
        "name": "main",
        "image": spec.pop("image", kubernetes.image()),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"limits": spec.pop("limits", {})},
        "volumeMounts": spec.pop("mounts", []),
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    job = {"backoffLimit": 0, "template": {"spec": pod}}
    kubernetes.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": job}
    )


def _pod(namespace: str, job: str) -> dict[str, Any]:
    found = kubectl("-n", namespace, "get", "pods", "-l", f"job-name={job}", "-o", "json")
    return next(iter(json.loads(found)["items"]), {})


def _phase(namespace: str, job: str) -> str | None:
    return _pod(namespace, job).get("status", {}).get("phase")


def _wait_for(namespace: str, job: str, phase: str) -> None:
    wait_until(lambda: _phase(namespace, job) == phase, 60, f"{job} to be {phase}", pause_seconds=0.1)


def test_a_job_runs_on_gpus_with_a_volume_and_keeps_its_output(namespace: str) -> None:
    kubernetes.advertise_gpus(4)
    with kubernetes.claim(namespace) as claim:
        volume = {"name": "work", "persistentVolumeClaim": {"claimName": claim.name}}
        mount = {"name": "work", "mountPath": "/work"}
        script = "echo kept >/work/file; echo told"
        _run(namespace, "job", script, limits={kubernetes.GPU: "4"}, volumes=[volume], mounts=[mount])
        kubectl("-n", namespace, "wait", "--for=condition=complete", "--timeout=60s", "job/job")
        assert kubectl("-n", namespace, "logs", "job/job") == "told\n"
        assert (claim.folder / "file").read_text() == "kept\n"
    assert not claim.folder.exists()


def test_more_gpus_than_there_are_wait(namespace: str) -> None:
    kubernetes.advertise_gpus(4)
    _run(namespace, "job", "true", limits={kubernetes.GPU: "5"})

    def told() -> bool:
        return "Insufficient nvidia.com/gpu" in json.dumps(_pod(namespace, "job").get("status", {}))

    wait_until(told, 60, "the scheduler", pause_seconds=0.1)


def test_an_absent_image_is_told(namespace: str) -> None:
    _run(namespace, "job", "true", image="nemo-test/absent:1")
    wait_until(
        lambda: "ErrImagePull" in json.dumps(_pod(namespace, "job").get("status", {})), 60, "kubelet", pause_seconds=0.1
    )


def test_a_pod_reaches_the_api_as_its_environment_says(namespace: str) -> None:
    script = "wget -qO- --no-check-certificate https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version"
    _run(namespace, "job", script)
    kubectl("-n", namespace, "wait", "--for=condition=complete", "--timeout=60s", "job/job")
    assert '"gitVersion"' in kubectl("-n", namespace, "logs", "job/job")


@pytest.mark.needs("owned_kubernetes")
@pytest.mark.parametrize("name", ["etcd", "apiserver", "controller-manager", "scheduler", "containerd", "kubelet"])
def test_a_component_comes_back_and_a_pod_outlives_it(namespace: str, name: str) -> None:
    kubernetes.advertise_gpus(4)
    _run(namespace, "before", "sleep 1000", limits={kubernetes.GPU: "1"})
    _wait_for(namespace, "before", "Running")
    one = component(name)
    for end in (one.kill, one.stop):
        try:
            end()
            end()  # of what has ended already
            if name == "apiserver":
                with pytest.raises(Refused):
                    kubectl("get", "nodes")
        finally:
            one.start()
            one.start()
    _run(namespace, "after", "true", limits={kubernetes.GPU: "3"})
    _wait_for(namespace, "after", "Succeeded")
    assert _phase(namespace, "before") == "Running"
    assert not _pod(namespace, "before")["status"]["containerStatuses"][0]["restartCount"]
