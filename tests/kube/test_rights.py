"""With exactly the rights of `docs/kubernetes/rbac.yaml`, and with fewer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from nemo_airflow_provider.backends.base import Phase, Site
from nemo_airflow_provider.backends.kube.config import PodStorage
from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.hooks.kubernetes import connect
from tests.contract.test_backend import LOOP, end, running, text
from tests.kube.pods import WITH_STORAGE, Pods, pods, shell
from tests.stack import engines, kubernetes

pytestmark = pytest.mark.needs("kubernetes")

MANIFEST = Path(__file__).parents[2] / "docs" / "kubernetes" / "rbac.yaml"
#: The worker's service account in the manifest, and its namespace.
ACCOUNT, ELSEWHERE, NAMESPACE = "airflow-worker", "airflow", "nemo-jobs"


def manifest(namespace: str) -> list[dict[str, Any]]:
    """The manifest for one namespace, which has the service account too."""
    replaced = MANIFEST.read_text().replace(f"namespace: {ELSEWHERE}", f"namespace: {NAMESPACE}")
    return list(yaml.safe_load_all(replaced.replace(f"namespace: {NAMESPACE}", f"namespace: {namespace}")))


@pytest.fixture
def home() -> Iterator[Pods]:
    """A namespace of its own, with the service account and no rights yet."""
    engines.require("kubernetes")
    with kubernetes.namespace() as name, kubernetes.claim(name) as claim, pods(kubernetes.Home(name, claim)) as made:
        made.kubectl("create", "serviceaccount", ACCOUNT)
        yield made


def site(home: Pods) -> Site:
    return kubernetes.site(token=home.kubectl("create", "token", ACCOUNT).strip())


def test_the_whole_life_of_a_job(home: Pods) -> None:
    kubernetes.apply(*manifest(home.namespace))
    backend = home.backend(site(home))
    assert backend.identity().startswith(f"{home.namespace}/")
    report = backend.examine(for_gpus=True)
    assert report.remarks == ()
    backend.probe()
    backend.submit(home.task(shell("echo $A"), step=WITH_STORAGE, secrets={"A": "b"}))
    assert end(home, backend).exit_code == 0
    assert text(backend, home.key()) == b"b\n"
    later = home.key(start=1)
    backend.submit(home.task(shell(f"trap 'exit 7' TERM; echo ready; {LOOP}"), later))
    home.runs(backend, later)
    backend.stop(later, 3)
    assert end(home, backend, later).stopped == "asked"
    hard = home.key(start=2)
    backend.submit(home.task(shell(f"trap '' TERM; echo ready; {LOOP}"), hard))
    home.runs(backend, hard)
    backend.stop(hard, 0)
    assert end(home, backend, hard).phase is Phase.ENDED
    early = home.key(start=3)
    backend.submit(home.task(shell("true", provider="gpu", resources={"num_gpus": 99}), early))
    home.seen(backend, early, "why it waits", message=lambda words: "nvidia.com/gpu" in str(words))
    backend.stop(early, 3)
    assert len(backend.find(home.key())) == 3
    backend.cleanup(home.key())
    [held] = backend.held_jobs(home.installation)
    assert backend.remove_job(held.workspace, held.run_id, held.run_key)
    assert list(backend.held_jobs(home.installation)) == []


def test_a_worker_in_the_cluster(home: Pods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs in a pod finds the API, its token and the namespace by what the kubelet gives it."""
    kubernetes.apply(*manifest(home.namespace))
    access = kubernetes.site().connect("kubernetes", None)
    address = urlsplit(access.configuration.host)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port or 443))
    monkeypatch.setenv("NO_PROXY", str(address.hostname))
    monkeypatch.setenv("POD_NAMESPACE", home.namespace)
    (tmp_path / "token").write_text(home.kubectl("create", "token", ACCOUNT).strip())
    place = "kubernetes.config.incluster_config"
    monkeypatch.setattr(f"{place}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{place}.SERVICE_CERT_FILENAME", access.configuration.ssl_ca_cert)
    own = Site(connect=lambda _, connection: connect(connection), default_task_image=kubernetes.image())
    backend = home.backend(own, namespace=None)
    assert backend.identity().startswith(f"{home.namespace}/")
    backend.submit(home.task(shell("echo inside")))
    assert end(home, backend).exit_code == 0
    assert text(backend, home.key()) == b"inside\n"


def test_without_any(home: Pods) -> None:
    backend = home.backend(site(home))
    with pytest.raises(BackendError, match=r"cannot get resource \"namespaces\""):
        backend.identity()
    with pytest.raises(StartError, match=r"Kubernetes does not take the job: .* cannot get resource \"jobs\""):
        backend.submit(home.task(shell("true")))
    [remark] = backend.examine(for_gpus=False).remarks
    assert remark.fails_steps
    assert remark.message.startswith("The worker may not get, list, watch, patch, delete pods; get pods/log; ")
    assert remark.message.endswith(f"get, list, create, patch, delete jobs.batch in namespace {home.namespace}")


def test_with_one_that_is_missing(home: Pods) -> None:
    role, binding = manifest(home.namespace)
    role["rules"][1]["verbs"].remove("patch")
    kubernetes.apply(role, binding)
    backend = home.backend(site(home))
    [remark] = backend.examine(for_gpus=False).remarks
    assert remark.message == f"The worker may not patch pods in namespace {home.namespace}"
    backend.submit(home.task(shell(f"echo ready; {LOOP}")))
    running(home, backend)
    home.runs(backend)
    with pytest.raises(BackendError, match=r"cannot patch resource \"pods\""):
        backend.stop(home.key(), 3)


def test_what_the_namespace_lacks(home: Pods) -> None:
    queue = {"labels": {"kai.scheduler/queue-name": "research"}}
    profile = {"storage": {"pvc_name": "none"}, "scheduler_name": "kai-scheduler", "job_metadata": queue}
    remarks = home.backend(**profile).examine(for_gpus=False).remarks
    assert [remark.message.split(":")[0] for remark in remarks] == [
        f"Namespace {home.namespace} has no claim 'none'",
        "The KAI scheduler (kai-scheduler) is not installed there",
        "pod_metadata.labels names no queue of the KAI scheduler",
    ]


def test_a_namespace_that_is_not_there() -> None:
    """An administrator may do everything in it."""
    engines.require("kubernetes")
    config = KubernetesJobConfig(namespace="nemo-test-not-there", storage=PodStorage(pvc_name="jobs"))
    [remark] = KubernetesJobBackend(config, kubernetes.site()).examine(for_gpus=False).remarks
    assert remark.message == "There is no namespace 'nemo-test-not-there'"
