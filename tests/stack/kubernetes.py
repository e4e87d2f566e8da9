"""The Kubernetes cluster that tests may use: `make kube-up` starts one, `tests/kube` tells how."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nemo_airflow_provider.backends.base import Site
from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.model.names import label_value
from tests.waiting import wait_until

IMAGE = "nemo-test/busybox:1"
GPU = "nvidia.com/gpu"
#: An Airflow connection that says where the cluster is, and where profiles of tests mount the claim's gates.
CONNECTION, GATES_PATH = "nemo-test-cluster", "/gates"
_SCRIPTS = Path(__file__).parents[1] / "kube"


class Refused(Exception):
    """kubectl ended with an error, which is the message."""


class Claim(NamedTuple):
    """A PersistentVolumeClaim, and the folder of the node's host that it is."""

    name: str
    folder: Path


def image() -> str:
    """The name of an image with a shell, which the node has."""
    return IMAGE


def kubeconfig() -> str:
    """The path of the cluster's kubeconfig."""
    return os.environ["NEMO_TEST_KUBECONFIG"]


def kubectl(*words: str, stdin: str | None = None) -> str:
    """What kubectl prints.

    :raises Refused: it ends with an error
    """
    command = [_program(), "--kubeconfig", kubeconfig(), *words]
    # A proxy does not know the node.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, env=environment)
    if done.returncode:
        raise Refused(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _program() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "nemo-airflow-provider", "kube")
    built = [Path(os.environ.get("KUBE_BIN", ""), "kubectl"), *sorted(cache.glob("v*/kubectl"), reverse=True)]
    there = next((str(path) for path in built if path.is_absolute() and os.access(path, os.X_OK)), None)
    if found := there or shutil.which("kubectl"):
        return found
    raise Refused("There is no kubectl: set KUBE_BIN to its folder, or put it on PATH.")


def apply(*documents: dict[str, Any]) -> None:
    """Create or change these objects."""
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))


@contextmanager
def namespace(name: str | None = None) -> Iterator[str]:
    """A namespace of the caller's own, in which pods can be created; deleted afterwards, without waiting for it.

    :param name: None: one that nobody else has
    """
    name = name or f"nemo-test-{token_hex(4)}"
    kubectl("create", "namespace", name)
    try:
        # A pod is refused before its namespace's default service account is there.
        wait_until(lambda: _has_account(name), 60, f"the service account of {name}", pause_seconds=0.05)
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


def _has_account(namespace: str) -> bool:
    return bool(kubectl("--namespace", namespace, "get", "serviceaccount", "default", "--ignore-not-found"))


def advertise_gpus(count: int) -> None:
    """Have the first node offer this many `nvidia.com/gpu`. They are counted like real ones, and no device is there.

    A kubelet that starts anew may forget them, so call it where they are needed.
    """
    node = json.loads(kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    if _allocatable(node) == str(count):
        return
    path = f"/status/capacity/{GPU.replace('/', '~1')}"
    change = json.dumps([{"op": "add", "path": path, "value": str(count)}])
    kubectl("patch", "node", node, "--subresource=status", "--type=json", "--patch", change)
    # Kubelet takes it over into what pods may have.
    wait_until(lambda: _allocatable(node) == str(count), 60, f"{count} GPUs of {node}", pause_seconds=0.1)


def _allocatable(node: str) -> str:
    return str(json.loads(kubectl("get", "node", node, "-o", "json"))["status"]["allocatable"].get(GPU))


@contextmanager
def claim(namespace: str, size: str = "1Gi") -> Iterator[Claim]:
    """A bound claim of a volume that several pods may use at once; removed afterwards with all that is in it.

    :param size: as Kubernetes writes it, such as 1Gi
    """
    name = f"nemo-test-{token_hex(4)}"
    home = _state() / "volumes"
    folder = (home if home.is_dir() else Path("/tmp/nemo-test-volumes")) / name
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": size},
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        },
    }
    claimed = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "resources": {"requests": {"storage": size}}},
    }
    apply(volume, claimed)
    try:
        wait_until(lambda: _is_bound(namespace, name), 60, f"claim {name}", pause_seconds=0.1)
        yield Claim(name, folder)
    finally:
        # A pod that still has it keeps it until the namespace goes.
        kubectl("--namespace", namespace, "delete", "pvc", name, "--wait=false", "--ignore-not-found")
        kubectl("delete", "pv", name, "--wait=false", "--ignore-not-found")
        shutil.rmtree(folder, ignore_errors=True)


def _is_bound(namespace: str, claim: str) -> bool:
    # One whose volume was not known yet is looked at again every 15 seconds only, or when it changes.
    change = f"looked-at={token_hex(4)}"
    phase = "jsonpath={.status.phase}"
    return kubectl("--namespace", namespace, "annotate", "pvc", claim, change, "--overwrite", "-o", phase) == "Bound"


@dataclass(frozen=True)
class Component:
    """A component of a cluster that `owned_kubernetes` allows to stop: etcd, apiserver, controller-manager, scheduler,
    containerd or kubelet. Every test after this one needs it, so start it in a `finally`."""

    name: str

    def stop(self) -> None:
        """End it with SIGTERM; returns when it has ended."""
        self._do("stop")

    def kill(self) -> None:
        """End it with SIGKILL; returns when it has ended."""
        self._do("kill")

    def start(self) -> None:
        """Returns when it answers; where it runs, at once."""
        self._do("start")

    def _do(self, action: str) -> None:
        command = [str(_SCRIPTS / "component.sh"), action, self.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr


def component(name: str) -> Component:
    """See `Component`."""
    return Component(name)


def missing() -> str | None:
    """Why the cluster cannot be used, in one sentence; None when it can."""
    how = "`make kube-up` starts one and prints its path"
    path = os.environ.get("NEMO_TEST_KUBECONFIG")
    if not path:
        return f"Set NEMO_TEST_KUBECONFIG to the kubeconfig of a cluster that tests may use; {how}."
    if not Path(path).is_file():
        return f"NEMO_TEST_KUBECONFIG={path} is not a file; {how}."
    try:
        kubectl("get", "--raw=/readyz", "--request-timeout=10s")
    except (Refused, subprocess.TimeoutExpired) as error:
        return f"The cluster of NEMO_TEST_KUBECONFIG={path} does not answer ({error}); {how}."
    return None


def owned_missing() -> str | None:
    """Why no component of the cluster may be stopped; None when they may."""
    if os.environ.get("NEMO_TEST_OWNS_ENGINES") != "1":
        return "Set NEMO_TEST_OWNS_ENGINES=1 where tests may stop, kill and restart components of the cluster."
    if os.geteuid() != 0 or not (_state() / "run").is_dir():
        return f"Stopping its components needs root, and a cluster that `make kube-up` has started in {_state()}."
    if (reason := missing()) is None and not os.path.samefile(kubeconfig(), _state() / "admin.kubeconfig"):
        return f"NEMO_TEST_KUBECONFIG is not the cluster of KUBE_STATE={_state()}, so its components cannot be stopped."
    return reason


def _state() -> Path:
    return Path(os.environ.get("KUBE_STATE") or "/tmp/nemo-kube")


class Home(NamedTuple):
    """A namespace, and a claim in it."""

    namespace: str
    claim: Claim


@cache
def shared() -> Home:
    """Those of this process, until it ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    name = stack.enter_context(namespace())
    return Home(name, stack.enter_context(claim(name)))


def profile(connection: str | None = None, **more: Any) -> dict[str, Any]:
    """`config:` of a profile in the shared namespace, with the claim for job storage and for gates.

    :param connection: None: the worker's own KUBECONFIG says where the cluster is
    """
    home = shared()
    (home.claim.folder / "gates").mkdir(parents=True, exist_ok=True)
    storage = {
        "pvc_name": home.claim.name,
        "volume_permissions_image": IMAGE,
        "additional_volumes": [{"name": "gates", "persistent_volume_claim": {"claim_name": home.claim.name}}],
        "additional_volume_mounts": [{"name": "gates", "mount_path": GATES_PATH, "sub_path": "gates"}],
    }
    found = {"namespace": home.namespace, "default_task_image": IMAGE, "storage": storage}
    return found | ({"kubernetes_conn_id": connection} if connection else {}) | more


def open_gate(name: str) -> None:
    """Make a file that every pod of such a profile finds in `GATES_PATH`."""
    (shared().claim.folder / "gates" / name).touch()


def airflow_settings() -> dict[str, str]:
    """The environment of an Airflow that finds the cluster in both ways."""
    host = urlsplit(str(_configuration().host)).hostname
    way = {"conn_type": "kubernetes", "extra": {"kube_config_path": kubeconfig()}}
    no_proxy = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), host)))
    return {
        "KUBECONFIG": kubeconfig(),
        f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(way),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }


def held(job: str, kinds: str) -> list[dict[str, Any]]:
    """What the shared namespace holds of jobs of a name, oldest first.

    :param kinds: as `kubectl` calls them, separated by commas
    """
    mine = f"{labels.PREFIX}job_run_id={label_value(job)}"
    words = ("--namespace", shared().namespace, "get", kinds, "-l", mine, "-o", "json")
    found: list[dict[str, Any]] = json.loads(kubectl(*words))["items"]
    return sorted(found, key=lambda thing: str(thing["metadata"]["creationTimestamp"]))


def running(job: str) -> list[str]:
    """Names of the pods of jobs of a name in which a container runs."""
    return [
        pod["metadata"]["name"]
        for pod in held(job, "pods")
        if any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))
    ]


def site(token: str | None = None) -> Site:
    """What backends are told, with the cluster for every profile.

    :param token: of who asks there; None: an administrator
    """
    found = _configuration()
    found.proxy = None
    if token is not None:
        found.cert_file = found.key_file = None
        found.api_key["authorization"] = f"Bearer {token}"
    return Site(connect=lambda *_: Access(found), default_task_image=IMAGE)


def _configuration() -> Any:
    from kubernetes import config
    from kubernetes.client import Configuration

    found = Configuration()
    config.load_kube_config(config_file=kubeconfig(), client_configuration=found)
    return found
