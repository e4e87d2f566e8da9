"""What others remove, keep or leave behind, and what is removed with a job."""

from __future__ import annotations

import json
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.kube import storage
from nemo_airflow_provider.backends.kube.launch import Launch
from nemo_airflow_provider.errors import BackendError, StartError
from tests.contract.test_backend import LOOP, end, running, text
from tests.kube.pods import STORAGE, WITH_STORAGE, Pods, pods, shell
from tests.stack import kubernetes
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("kubernetes")

POLITE = f"trap 'echo bye; exit 7' TERM; echo ready; {LOOP}"


class TestAPodThatIsKeptWithoutItsJob:
    """As `kubectl delete job --cascade=orphan` leaves it."""

    @pytest.fixture
    def kept(self, kube: Pods) -> Pods:
        backend = kube.backend()
        backend.submit(kube.task(shell(POLITE), secrets={"TOKEN": "x"}))
        running(kube, backend)
        kube.kubectl("delete", "job", kube.name(), "--cascade=orphan")
        wait_until(lambda: "ownerReferences" not in kube.pod()["metadata"], 60, "the pod to be let go")
        return kube

    def test_runs_on_and_its_end_is_told(self, kept: Pods) -> None:
        backend = kept.backend()
        assert backend.observe(kept.key()).phase is Phase.RUNNING
        assert list(backend.find(kept.key())) == [kept.key()]
        backend.cleanup(kept.key())
        backend.stop(kept.key(), 3)
        seen = end(kept, backend)
        assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 7, "asked")
        assert text(backend, kept.key()) == b"ready\nbye\n"
        backend.cleanup(kept.key())
        assert backend.observe(kept.key()).phase is Phase.ABSENT
        for kind in ("pods", "configmaps", "secrets"):
            kept.gone(kind)

    def test_is_not_started_a_second_time(self, kept: Pods) -> None:
        backend = kept.backend()
        with pytest.raises(BackendError, match="whose owner was removed, has not ended yet"):
            backend.submit(kept.task(shell("true")))
        assert kept.things("jobs") == []

    def test_is_held_until_it_has_ended(self, kept: Pods) -> None:
        backend, key = kept.backend(), kept.key()
        [held] = backend.held_jobs(kept.installation)
        assert held.workloads == (key,)
        assert not backend.remove_job(key.workspace, key.run_id, key.run_key)
        backend.stop(key, 1)
        end(kept, backend)
        assert backend.remove_job(key.workspace, key.run_id, key.run_key)
        kept.gone("pods")
        assert list(backend.held_jobs(kept.installation)) == []


def test_the_last_words_of_a_pod_whose_job_was_removed(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell(f"trap 'sleep 1; echo bye; exit 7' TERM; echo ready; {LOOP}")))
    reader = kube.backend().read_logs(kube.key(), None, Event())
    # Read from before that: nobody can tell how soon its node removes the container.
    first = next(chunk for chunk in reader if chunk)
    kube.kubectl("delete", "job", kube.name(), "--wait=false")
    assert b"".join(chunk.data for chunk in (first, *reader) if chunk) == b"ready\nbye\n"


@pytest.mark.parametrize("kind", ["secret", "configmap"])
def test_a_name_that_somebody_else_has_is_left_to_him(kube: Pods, kind: str) -> None:
    backend, workload = kube.backend(), kube.task(shell("true"), secrets={"TOKEN": "x"})
    generic = ("generic",) if kind == "secret" else ()
    kube.kubectl("create", kind, *generic, kube.name(), "--from-literal=his=own")
    try:
        with pytest.raises(StartError, match=f"{kube.name()} of namespace .* is not this job's"):
            backend.submit(workload)
        backend.stop(workload.key, 0)
        backend.cleanup(workload.key)
        left = kube.kubectl("get", kind, kube.name(), "-o", "jsonpath={.data}{.metadata.ownerReferences}")
        assert '"his"' in left and "Job" not in left
    finally:
        kube.kubectl("delete", kind, kube.name())


def crash(*_: object) -> Any:
    raise KeyboardInterrupt


def test_what_a_crash_left_is_used_only_as_it_is_now_to_be(kube: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a secret that somebody has changed since."""
    script = 'echo $TOKEN; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"'
    first, second = (
        kube.task(shell(script), config={"a": number}, secrets={"TOKEN": f"token-{number}"}) for number in (1, 2)
    )
    backend = kube.backend()
    monkeypatch.setattr(backend._launch, "_body_of", crash)
    with pytest.raises(KeyboardInterrupt):
        backend.submit(first)
    assert kube.output(kube.backend(), second) == 'token-2\n{"a": 2}'


def test_a_cleanup_removes_what_a_crash_left_without_an_owner(kube: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Launch, "_give_owner", crash)
        with pytest.raises(KeyboardInterrupt):
            kube.backend().submit(kube.task(shell("true"), secrets={"TOKEN": "x"}))
    backend = kube.backend()
    assert end(kube, backend).exit_code == 0
    backend.cleanup(kube.key())
    for kind in ("jobs", "secrets", "configmaps"):
        kube.gone(kind)


class TestStorage:
    def test_in_several_claims(self, kube: Pods) -> None:
        """Profiles of one job may name several."""
        assert kube.home is not None
        key = kube.key()
        with kubernetes.claim(kube.namespace) as other:
            for step, claim in (("first", kube.home.claim), ("second", other)):
                backend = kube.backend(storage={"pvc_name": claim.name})
                kube.output(backend, kube.task(shell(f"touch {STORAGE}/x"), kube.key(step), step=WITH_STORAGE))
            folders = [
                claim.folder / "jobs" / key.workspace / f"{key.run_id}.{key.run_key}"
                for claim in (kube.home.claim, other)
            ]
            assert [folder.exists() for folder in folders] == [True, True]
            assert kube.backend().remove_job(key.workspace, key.run_id, key.run_key)
            assert [folder.exists() for folder in folders] == [False, False]

    def test_in_a_namespace_with_the_strictest_rules(self) -> None:
        with (
            kubernetes.namespace() as name,
            kubernetes.claim(name) as claim,
            pods(kubernetes.Home(name, claim)) as kube,
        ):
            kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
            claim.folder.mkdir(exist_ok=True)
            claim.folder.chmod(0o777)
            backend = kube.backend(
                pod_security_context={"runAsNonRoot": True, "runAsUser": 1000},
                container_security_context={"capabilities": {"drop": ["ALL"]}},
            )
            kube.output(backend, kube.task(shell(f"touch {STORAGE}/file"), step=WITH_STORAGE))
            key = kube.key()
            assert backend.remove_job(key.workspace, key.run_id, key.run_key)
            assert list((claim.folder / "jobs" / key.workspace).iterdir()) == []

    def test_that_cannot_be_removed_now_says_why(self, kube: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
        kube.output(kube.backend(), kube.task(shell("true"), step=WITH_STORAGE))
        run = (kube.key().workspace, kube.key().run_id, kube.key().run_key)
        absent = kube.backend(storage={"volume_permissions_image": "absent.invalid/image:1"})
        words = r'of run contract is not removed yet, .* "absent\.invalid/image:1"'
        with monkeypatch.context() as patch:
            patch.setattr("nemo_airflow_provider.backends.kube.storage.REMOVAL_SECONDS", 3.0)
            for _ in range(2):
                with pytest.raises(BackendError, match=words):
                    absent.remove_job(*run)
        [held] = absent.held_jobs(kube.installation)
        assert held.run_key == kube.run_key
        [removal] = [job for job in kube.things("jobs") if job["metadata"]["name"].startswith("cleanup-")]
        kube.kubectl("delete", "job", removal["metadata"]["name"])
        monkeypatch.undo()
        assert kube.backend().remove_job(*run)

    def test_several_that_hang_share_the_time_of_one(self, kube: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is begun, and the sweep that waits for the first has none left to wait for the others."""
        keys = [replace(kube.key(), run_key=f"{kube.run_key}{number}") for number in range(3)]
        for key in keys:
            kube.output(kube.backend(), kube.task(shell("true"), key, step=WITH_STORAGE))
        absent = kube.backend(storage={"volume_permissions_image": "absent.invalid/image:1"})
        waited: list[float] = []
        remove = storage.remove

        def noted(*words: Any, seconds: float) -> None:
            waited.append(seconds)
            remove(*words, seconds=seconds)

        monkeypatch.setattr(storage, "REMOVAL_SECONDS", 3.0)
        monkeypatch.setattr(storage, "remove", noted)
        for job in absent.held_jobs(kube.installation):
            with pytest.raises(BackendError, match="is not removed yet"):
                absent.remove_job(job.workspace, job.run_id, job.run_key)
        assert len(waited) == 3
        assert waited[1:] == [0, 0]
        assert len([job for job in kube.things("jobs") if job["metadata"]["name"].startswith("cleanup-")]) == 3


def test_what_another_backend_has_made_of_the_run_stays(kube: Pods) -> None:
    """Its own owner takes it along, and may not be over."""
    backend, key = kube.backend(), kube.key()
    kube.output(backend, kube.task(shell("true")))
    own = {name: kube.pod()["metadata"][name] for name in ("labels", "annotations")}
    owner = {"apiVersion": "example.com/v1", "kind": "Gang", "name": "another", "uid": "not-ours", "controller": True}
    metadata = {**own, "name": "another", "ownerReferences": [owner]}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    kube.kubectl("create", "-f", "-", stdin=json.dumps(other))
    assert backend.remove_job(key.workspace, key.run_id, key.run_key)
    kube.gone("pods")
    assert [thing["metadata"]["name"] for thing in kube.things("configmaps")] == ["another"]
