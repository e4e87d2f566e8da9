"""The Kubernetes cluster that is measured: a namespace of the bench's own, plain Jobs, and nothing left behind."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from bench.burst import everywhere
from bench.registry import Skipped
from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing, events_in
from nemo_airflow_provider.backends.registry import BACKENDS
from tests.stack import engines, kubernetes

#: No other run of the bench has it: whatever is in it is ours.
NAMESPACE = f"nemo-bench-{secrets.token_hex(4)}"
PROVIDER, PROFILE = "cpu", "bench-kubernetes"
#: Airflow's way to the cluster, for our steps and for its own operator.
CONNECTION = "bench_kubernetes"
_BATCH = "nemo-bench"
_LIMIT_SECONDS = 600
_RETRY_SECONDS = 0.05


def profile() -> dict[str, Any]:
    """The profile whose steps are measured, as an entry of `executors`; everything else is the default."""
    config = {"kubernetes_conn_id": CONNECTION, "namespace": NAMESPACE}
    return {"provider": PROVIDER, "profile": PROFILE, "backend": "kubernetes_job", "config": config}


def executor(command: list[str]) -> dict[str, Any]:
    """Of a step that runs this in a pod of the profile."""
    container = {"image": kubernetes.image(), "command": command}
    return {"provider": PROVIDER, "profile": PROFILE, "container": container}


def environment() -> dict[str, str]:
    """What an Airflow needs to reach the cluster; nothing where there is none."""
    if lacking():
        return {}
    extra = {"kube_config_path": kubernetes.kubeconfig(), "namespace": NAMESPACE}
    # A proxy does not know the node.
    direct = [os.environ.get("NO_PROXY"), urlsplit(_access().shown_url).hostname]
    return {
        f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps({"conn_type": "kubernetes", "extra": extra}),
        "NO_PROXY": ",".join(filter(None, direct)),
    }


@cache
def lacking() -> str | None:
    """Why Kubernetes cannot be measured here, in a sentence; None where it can."""
    if lack := BACKENDS["kubernetes_job"].lack:
        return f"{lack.reason}: {lack.remedy}."
    if find_spec("airflow.providers.cncf") is None:
        return "Install apache-airflow-providers-cncf-kubernetes, whose operator is measured too."
    return engines.missing("kubernetes")


def require() -> None:
    """Go on where Kubernetes can be measured.

    :raises Skipped: it cannot
    """
    if reason := lacking():
        raise Skipped(reason)


@contextmanager
def prepared() -> Iterator[None]:
    """Have the namespace, for the length of a block; afterwards it goes with all that is in it.

    Where Kubernetes cannot be measured, nothing is done.
    """
    if lacking():
        yield
        return
    with kubernetes.namespace(NAMESPACE):
        yield
    # Another one of its name may be made next.
    kubernetes.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=110s")


def running_pods() -> int:
    """How many there are in the namespace."""
    return len(_cluster().list("pods", fields="status.phase=Running"))


def seconds_of_plain_jobs(count: int, command: list[str]) -> float:
    """From the first `kubectl create job … -- COMMAND` of so many to the answer that says complete of all.

    Made of the same calls by Kubernetes' client for Python: no process of a command line is started.

    :raises RuntimeError: one failed, or they took too long
    """
    cluster = _cluster()
    batch = f"plain-{secrets.token_hex(4)}"
    cluster.identity()  # connected before the clock starts
    began = time.perf_counter()
    everywhere(lambda number: cluster.create("jobs", _job(batch, number, command)), map(str, range(count)))
    _wait(cluster, batch, count)
    return time.perf_counter() - began


def _job(batch: str, number: str, command: list[str]) -> dict[str, Any]:
    container = {"name": "main", "image": kubernetes.image(), "command": command}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{batch}-{number}", "labels": {_BATCH: batch}},
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    }


def _wait(cluster: Cluster, batch: str, count: int) -> None:
    complete: set[str] = set()
    deadline = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < deadline:
        for event in _events(cluster, batch):
            if event["type"] == "ERROR":  # such as a cache of the API that lags behind what was just made
                time.sleep(_RETRY_SECONDS)
                break
            if (name := _completed(event["object"])) is not None:
                complete.add(name)
            if len(complete) == count:
                return
    raise RuntimeError(f"{len(complete)} of {count} plain Jobs were complete after {_LIMIT_SECONDS} s")


def _events(cluster: Cluster, batch: str) -> Iterator[Thing]:
    with cluster.watched("jobs", {_BATCH: batch}, _LIMIT_SECONDS) as response:
        yield from events_in(response)


def _completed(job: Thing) -> str | None:
    """The name of a Job that is complete."""
    conditions = [each["type"] for each in job["status"].get("conditions") or [] if each["status"] == "True"]
    if "Failed" in conditions:
        raise RuntimeError(f"a plain Job failed: {job['status']}")
    return str(job["metadata"]["name"]) if "Complete" in conditions else None


@cache
def _access() -> Access:
    found = kubernetes.site().connect("kubernetes", None)
    assert isinstance(found, Access)
    return found


def _cluster() -> Cluster:
    return Cluster(_access, NAMESPACE)
