"""What a pod gets, as its process sees it."""

from __future__ import annotations

import json
import re

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import StartError
from tests.contract.test_backend import end, text
from tests.kube.pods import STORAGE, WITH_STORAGE, Pods, shell
from tests.stack import kubernetes

pytestmark = pytest.mark.needs("kubernetes")

HARD = ["$", "$$", "$(HOME)", "$$(HOME)", "a b", "", "ü\n\t'\"", "\\", "$(", "%s"]


def test_words_arrive_byte_by_byte(kube: Pods) -> None:
    given = {"entrypoint": ["/bin/sh", "-c", 'for each; do printf "<%s>" "$each"; done', "sh"], "command": HARD}
    written = kube.output(kube.backend(), kube.task({"provider": "cpu", "container": given}))
    assert written == "".join(f"<{word}>" for word in HARD)


def test_variables_arrive_byte_by_byte(kube: Pods) -> None:
    step = {f"V{number}": word for number, word in enumerate(HARD)} | {"with.dot-and-dash": "x"}
    secrets = {f"S{number}": word for number, word in enumerate(HARD)}
    given = {"provider": "cpu", "container": {"entrypoint": ["cat", "/proc/self/environ"]}}
    written = kube.output(kube.backend(), kube.task(given, step=step, secrets=secrets))
    found = dict(item.split("=", 1) for item in written.split("\0") if "=" in item)
    assert {name: found[name] for name in (*step, *secrets)} == step | secrets
    assert found["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not any(name.endswith("_SERVICE_PORT") and not name.startswith("KUBERNETES") for name in found)


def test_secrets_stand_in_no_other_object(kube: Pods) -> None:
    backend = kube.backend()
    backend.submit(kube.task(shell('[ "$TOKEN" = s3cret"-value" ]'), secrets={"TOKEN": "s3cret-value"}))
    objects = [kube.job(), *kube.things("configmaps"), *kube.things("pods")]
    assert end(kube, backend).exit_code == 0
    objects += [kube.job(), *kube.things("pods")]
    assert "s3cret-value" not in json.dumps(objects)
    [secret] = kube.things("secrets")
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", objects[0]["metadata"]["uid"])


def test_a_pod_is_as_safe_as_it_may_be(kube: Pods) -> None:
    script = "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; ls /var/run/secrets 2>&1"
    written = kube.output(kube.backend(), kube.task(shell(script)), code=1)
    assert re.search(r"NoNewPrivs:\s1", written)
    assert re.search(r"Seccomp:\s2", written)
    assert "No such file" in written
    script = "ls /var/run/secrets/kubernetes.io/serviceaccount"
    allowed = kube.backend(automount_service_account_token=True)
    assert "token" in kube.output(allowed, kube.task(shell(script), kube.key("allowed")))


def test_shared_memory_and_limits(kube: Pods) -> None:
    kubernetes.advertise_gpus(4)
    script = "df -k /dev/shm | tail -n 1; echo visible=$NVIDIA_VISIBLE_DEVICES"
    step = kube.task(shell(script, provider="gpu", resources={"shm_size": "96Mi", "num_gpus": 1}))
    written = kube.output(kube.backend(), step).splitlines()
    assert written[0].split()[1] == str(96 * 1024)
    assert written[1] == "visible="
    resources = kube.pod()["spec"]["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == "1"


def test_the_configuration_elsewhere(kube: Pods) -> None:
    file = "/opt/app/settings.json"
    step = {"NEMO_JOB_STEP_CONFIG_FILE_PATH": file, "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": "/mine"}
    script = 'cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"; touch "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/x" && ls /mine'
    written = kube.output(kube.backend(), kube.task(shell(script), config={"a": "$(X)"}, step=step))
    assert written == '{"a": "$(X)"}x\n'
    inside = {"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/cfg", "NEMO_JOB_STEP_CONFIG_FILE_PATH": "/cfg/deep/own.json"}
    script = "cat /cfg/deep/own.json"
    workload = kube.task(shell(script), kube.key("inside"), config={"b": 1}, step=inside)
    assert kube.output(kube.backend(), workload) == '{"b": 1}'


def test_a_large_configuration(kube: Pods) -> None:
    script = 'wc -c <"$NEMO_JOB_STEP_CONFIG_FILE_PATH"'
    written = kube.output(kube.backend(), kube.task(shell(script), config={"x": "y" * 1_000_000}))
    assert int(written) > 1_000_000


def test_the_largest_environment(kube: Pods) -> None:
    """One of more is refused before the cluster's store refuses it."""
    backend = kube.backend()
    step = {f"V{number}": "x" * 124_000 for number in range(12)}
    assert kube.output(backend, kube.task(shell("echo ${#V0} ${#V11}"), step=step)) == "124000 124000\n"
    workload = kube.task(shell("true"), kube.key("more"), step=step | {"V12": "x" * 20_000})
    with pytest.raises(StartError, match=r"The step's words and variables are \d+ bytes; a Kubernetes object holds at"):
        backend.submit(workload)


def test_the_profiles_labels_are_on_job_and_pod(kube: Pods) -> None:
    queue = {"labels": {"kai.scheduler/queue-name": "research"}, "annotations": {"a": "b"}}
    backend = kube.backend(job_metadata=queue, pod_metadata=queue)
    backend.submit(kube.task(shell("true")))
    assert end(kube, backend).exit_code == 0
    for thing in (kube.job(), kube.pod()):
        assert thing["metadata"]["labels"].items() >= queue["labels"].items()
        assert thing["metadata"]["annotations"].items() >= queue["annotations"].items()


class TestStorage:
    def test_two_steps_share_it_whatever_user_they_are(self, kube: Pods) -> None:
        """The test's volume knows no groups, so its server, this host, lets everybody write."""
        assert kube.home is not None
        kube.home.claim.folder.mkdir(exist_ok=True)
        kube.home.claim.folder.chmod(0o777)
        first, second = kube.key("prepare"), kube.key("train")
        script = f"echo from-first >{STORAGE}/file; ls -ld {STORAGE} >&2"
        kube.output(kube.backend(), kube.task(shell(script), first, step=WITH_STORAGE))
        user = kube.backend(pod_security_context={"runAsUser": 1000, "runAsNonRoot": True})
        script = f"cat {STORAGE}/file; echo more >{STORAGE}/{second.step}; id -G"
        written = kube.output(user, kube.task(shell(script), second, step=WITH_STORAGE)).split()
        assert written[0] == "from-first"
        assert "2000" in written

    def test_it_is_removed_with_its_run_alone(self, kube: Pods) -> None:
        assert kube.home is not None
        backend = kube.backend()
        kube.output(backend, kube.task(shell(f"echo x >{STORAGE}/file"), step=WITH_STORAGE))
        key = kube.key()
        directory = kube.home.claim.folder / "jobs" / key.workspace
        other = directory / "other.run"
        other.mkdir(parents=True)
        own = directory / f"{key.run_id}.{key.run_key}"
        assert (own / "file").read_text() == "x\n"
        for _ in range(2):
            assert backend.remove_job(key.workspace, key.run_id, key.run_key)
            assert not own.exists()
        assert other.exists()
        assert list(backend.held_jobs(kube.installation)) == []

    def test_it_is_held_as_long_as_it_is_there(self, kube: Pods) -> None:
        backend = kube.backend()
        kube.output(backend, kube.task(shell("true"), step=WITH_STORAGE))
        backend.cleanup(kube.key())
        [held] = backend.held_jobs(kube.installation)
        assert (held.run_key, held.workloads) == (kube.run_key, ())


def test_a_cleanup_removes_all_that_the_job_owns(kube: Pods) -> None:
    backend = kube.backend()
    kube.output(backend, kube.task(shell("true"), secrets={"A": "b"}))
    backend.cleanup(kube.key())
    assert backend.observe(kube.key()).phase is Phase.ABSENT
    for kind in ("jobs", "pods", "configmaps", "secrets"):
        kube.gone(kind)


def test_what_was_made_before_a_crash_is_used_or_removed(kube: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = kube.backend()
    workload = kube.task(shell("echo $A"), secrets={"A": "b"})

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backend._launch, "_body_of", crash)
        with pytest.raises(KeyboardInterrupt):
            backend.submit(workload)
    assert len(kube.things("secrets")) == len(kube.things("configmaps")) == 1
    [held] = backend.held_jobs(kube.installation)
    assert held.workloads == ()
    assert kube.output(kube.backend(), workload) == "b\n"
    assert all(
        thing["metadata"]["ownerReferences"] for kind in ("secrets", "configmaps") for thing in kube.things(kind)
    )
    other = kube.task(shell("true"), kube.key("other"), secrets={"A": "b"})
    with monkeypatch.context() as patch:
        patch.setattr(backend._launch, "_body_of", crash)
        with pytest.raises(KeyboardInterrupt):
            backend.submit(other)
    kube.backend().stop(other.key, 0)
    assert len(kube.things("secrets")) == len(kube.things("configmaps")) == 1


def test_a_submit_while_the_old_job_is_being_removed(kube: Pods) -> None:
    """Somebody removes it with its pod first; it is asked for again until it is gone."""
    backend = kube.backend()
    backend.submit(kube.task(shell("trap '' TERM; sleep 1000")))
    kube.runs(backend)
    kube.kubectl("delete", "job", kube.name(), "--cascade=foreground", "--wait=false")
    with pytest.raises(Exception, match="is still being removed"):
        kube.backend().submit(kube.task(shell("true")))
    assert text(backend, kube.key()) == b""
