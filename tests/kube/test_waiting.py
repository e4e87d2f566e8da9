"""Pods that do not run yet, and those that never will."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from tests.contract.test_backend import end, running
from tests.kube.pods import Pods, pods, shell
from tests.stack import kubernetes

pytestmark = pytest.mark.needs("kubernetes")


def test_more_gpus_than_there_are(kube: Pods) -> None:
    backend = kube.backend(num_gpus=99)
    backend.submit(kube.task(shell("true", provider="gpu")))
    kube.seen(
        backend, kube.key(), "the scheduler's words", message=lambda text: "Insufficient nvidia.com/gpu" in str(text)
    )
    backend.stop(kube.key(), 30)
    for each in (backend, kube.backend()):
        kube.seen(each, kube.key(), "its end", phase=Phase.ABSENT)
    for kind in ("jobs", "pods", "configmaps", "secrets"):
        kube.gone(kind)
    backend.stop(kube.key(), 30)


def test_an_image_that_does_not_come(kube: Pods) -> None:
    backend = kube.backend(ttl_seconds_image_pull=3)
    backend.submit(
        kube.task(shell("true") | {"container": {"image": "absent.invalid/image:1", "entrypoint": ["true"]}})
    )
    waiting = kube.seen(backend, kube.key(), "a failed pull", message=lambda text: "absent.invalid" in str(text))
    assert waiting.phase is Phase.PENDING
    seen = kube.seen(backend, kube.key(), "the limit", hopeless=lambda text: text is not None)
    assert seen.hopeless is not None
    assert seen.hopeless.startswith("Image pull did not succeed within 3s (ErrImagePull")
    assert "absent.invalid/image:1" in seen.hopeless


@pytest.mark.parametrize(
    ("image", "policy", "words"),
    [("nemo-test/absent:1", "Never", "ErrImageNeverPull"), ("NOT A NAME", None, "InvalidImageName")],
)
def test_an_image_that_never_comes(kube: Pods, image: str, policy: str | None, words: str) -> None:
    backend = kube.backend(image_pull_policy=policy)
    backend.submit(kube.task({"provider": "cpu", "container": {"image": image, "entrypoint": ["true"]}}))
    seen = kube.seen(backend, kube.key(), "the refusal", hopeless=lambda text: text is not None)
    assert words in str(seen.hopeless)


def test_a_command_that_is_not_there(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task({"provider": "cpu", "container": {"entrypoint": ["no-such-program"]}}))
    seen = end(kube, backend)
    assert seen.phase is Phase.ENDED
    assert "no-such-program" in str(seen.message)


def test_a_secret_of_the_profile_that_is_missing(kube: Pods) -> None:
    volume = {"name": "licence", "secret": {"secret_name": "no-such-secret"}}
    mount = {"name": "licence", "mount_path": "/licence"}
    backend = kube.backend(storage={"additional_volumes": [volume], "additional_volume_mounts": [mount]})
    backend.submit(kube.task(shell("true")))
    seen = kube.seen(backend, kube.key(), "the words", message=lambda text: "no-such-secret" in str(text))
    assert (seen.phase, seen.hopeless) == (Phase.PENDING, None)
    kube.kubectl("create", "secret", "generic", "no-such-secret", "--from-literal=a=b")
    try:
        assert kube.seen(backend, kube.key(), "its end", phase=Phase.ENDED).exit_code == 0
    finally:
        kube.kubectl("delete", "secret", "no-such-secret")


def test_a_claim_that_is_missing(kube: Pods) -> None:
    backend = kube.backend(storage={"pvc_name": "no-such-claim"})
    with pytest.raises(StartError) as told:
        backend.submit(kube.task(shell("true"), step={"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/data"}))
    assert str(told.value).startswith("Failed to assert the validity of the persistent volume claim no-such-claim. ")
    backend.stop(kube.key(), 0)
    assert [kube.things(kind) for kind in ("jobs", "configmaps", "secrets")] == [[], [], []]


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"job_metadata": {"labels": {"queue": "not a value!"}}}, "not a value!"),
        ({"affinity": {"nodeAffinty": {}}}, "nodeAffinty"),
        ({"pod_security_context": {"runAsUsr": 1}}, "runAsUsr"),
        ({"tolerations": [{"key": "a", "operator": "Perhaps"}]}, "Perhaps"),
    ],
)
def test_what_the_api_does_not_take(kube: Pods, profile: dict[str, Any], words: str) -> None:
    backend = kube.backend(**profile)
    workload = kube.task(shell("true"), secrets={"TOKEN": "s3cret"})
    with pytest.raises(StartError, match="Kubernetes does not take the job: ") as told:
        backend.submit(workload)
    assert words in str(told.value)
    backend.stop(kube.key(), 0)
    assert [kube.things(kind) for kind in ("jobs", "configmaps", "secrets")] == [[], [], []]


def test_a_namespace_that_is_missing(kube: Pods) -> None:
    backend = kube.backend(namespace="no-such-namespace")
    with pytest.raises(BackendError, match='namespaces "no-such-namespace" not found'):
        backend.identity()
    with pytest.raises(StartError, match='namespaces "no-such-namespace" not found'):
        backend.submit(kube.task(shell("true")))


class TestRulesOfANamespace:
    def test_a_quota_of_pods_is_waited_for(self) -> None:
        with kubernetes.namespace() as name, pods(kubernetes.Home(name, kubernetes.shared().claim)) as kube:
            kube.kubectl("create", "quota", "small", "--hard=pods=0")
            backend = kube.backend()
            backend.submit(kube.task(shell("true")))
            seen = kube.seen(backend, kube.key(), "the words", message=lambda text: "quota" in str(text))
            assert (seen.phase, seen.hopeless) == (Phase.PENDING, None)
            assert str(seen.message).startswith("No room in the namespace's quota: small")
            backend.stop(kube.key(), 3)
            kube.seen(backend, kube.key(), "its end", phase=Phase.ABSENT)

    def test_a_quota_of_jobs_is_waited_for(self) -> None:
        with kubernetes.namespace() as name, pods(kubernetes.Home(name, kubernetes.shared().claim)) as kube:
            kube.kubectl("create", "quota", "none", "--hard=count/jobs.batch=0")
            backend = kube.backend()
            kube.kubectl("wait", "--for=jsonpath={.status.hard}", "quota/none", "--timeout=60s")
            with pytest.raises(CapacityError, match="No room in the namespace's quota: .*none"):
                backend.submit(kube.task(shell("true")))
            kube.kubectl("delete", "quota", "none")
            backend.submit(kube.task(shell("true")))
            assert end(kube, backend).exit_code == 0

    def test_a_refusal_of_pods_is_final_after_a_while(self) -> None:
        with kubernetes.namespace() as name, pods(kubernetes.Home(name, kubernetes.shared().claim)) as kube:
            kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
            backend = kube.backend()
            backend.submit(kube.task(shell("true")))
            seen = kube.seen(backend, kube.key(), "the words", message=lambda text: "violates PodSecurity" in str(text))
            assert seen.phase is Phase.PENDING
            kube.seen(backend, kube.key(), "the end of patience", hopeless=lambda text: "PodSecurity" in str(text))

    def test_a_profile_that_keeps_the_strictest_rules(self) -> None:
        with kubernetes.namespace() as name, pods(kubernetes.Home(name, kubernetes.shared().claim)) as kube:
            kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
            backend = kube.backend(
                pod_security_context={"runAsNonRoot": True, "runAsUser": 1000},
                container_security_context={"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
            )
            script = 'echo x >"$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/file" && ! touch /file 2>/dev/null && id -u'
            assert kube.output(backend, kube.task(shell(script))) == "1000\n"


def test_a_service_account_that_is_missing(kube: Pods) -> None:
    backend = kube.backend(service_account_name="nobody")
    backend.submit(kube.task(shell("true")))
    seen = kube.seen(backend, kube.key(), "the words", message=lambda text: "nobody" in str(text))
    assert seen.phase is Phase.PENDING


def test_a_job_that_is_held_back_by_its_queue(kube: Pods) -> None:
    """As Kueue does: a Job is suspended, and let go when there is room."""
    backend = kube.backend(num_gpus=99)
    backend.submit(kube.task(shell("true", provider="gpu")))
    patch = json.dumps({"spec": {"suspend": True}})
    kube.kubectl("patch", "job", kube.name(), "--type=merge", "--patch", patch)
    seen = kube.seen(backend, kube.key(), "the words", message=lambda text: "suspended" in str(text))
    assert (seen.phase, seen.stopped) == (Phase.PENDING, None)
    backend.stop(kube.key(), 3)
    # Its queue lets go only what is there.
    kube.gone("jobs")


def test_a_job_whose_queue_takes_its_room_back(kube: Pods) -> None:
    """As Kueue does for one that is more urgent: it would make another pod when it is let go again."""
    backend = kube.backend()
    backend.submit(kube.task(shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")))
    running(kube, backend)
    kube.runs(backend)
    patch = json.dumps({"spec": {"suspend": True}})
    kube.kubectl("patch", "job", kube.name(), "--type=merge", "--patch", patch)
    seen = end(kube, backend)
    assert (seen.exit_code, seen.fault) == (7, "platform")
    kube.seen(backend, kube.key(), "its end", phase=lambda phase: not phase.lives)
    kube.gone("jobs")
