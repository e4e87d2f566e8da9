"""The unmodified upstream client, where `platform.runtime` is kubernetes: its jobs are pods of a real cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stack import AirflowStack, kubernetes
from tests.wire.jobs import body, fresh
from tests.wire.upstream import Command, Running, unwrapped

pytestmark = pytest.mark.needs("kubernetes", "upstream")


def profiles() -> dict[str, Any]:
    """The built-in ones, one with volumes that the client cannot read, and one for several nodes on one."""
    config = kubernetes.profile()
    secret = {"name": "password", "secret": {"secret_name": "database", "optional": True}}
    storage = config["storage"]
    volumes = [*storage["additional_volumes"], secret]
    mounts = [*storage["additional_volume_mounts"], {"name": "password", "mount_path": "/password"}]
    hidden = {**config, "storage": {**storage, "additional_volumes": volumes, "additional_volume_mounts": mounts}}
    return {
        "platform": {"runtime": "kubernetes"},
        "jobs": {
            "executor_defaults": {"kubernetes_job": config},
            "executors": [
                {"provider": "cpu", "profile": "secret", "backend": "kubernetes_job", "config": hidden},
                {"provider": "gpu_distributed", "profile": "default", "backend": "kubernetes_job", "config": config},
            ],
        },
    }


@pytest.fixture(scope="module")
def nemo(tmp_path_factory: pytest.TempPathFactory, upstream_nemo: str) -> Iterator[Command]:
    folder = tmp_path_factory.mktemp("kubernetes")
    environ = kubernetes.airflow_settings()
    with AirflowStack(folder / "home", profiles=json.dumps(profiles()), environ=environ) as stack:
        yield Command(upstream_nemo, stack.url, folder)


def create(
    nemo: Command, provider: str, script: str, *words: str, profile: str = "default", **resources: Any
) -> Running:
    """Begin `nemo jobs create` with one step that runs a script."""
    container = {"entrypoint": ["sh", "-c"], "command": [script]}
    executor = {"provider": provider, "profile": profile, "container": container, "resources": resources}
    steps = [{"name": "one", "executor": executor, "config": {"x": 1}}]
    return nemo.start("create", *words, "--input-data", json.dumps(body(None, platform_spec={"steps": steps})))


def test_a_cpu_job_and_a_gpu_job(nemo: Command) -> None:
    kubernetes.advertise_gpus(4)
    name, gpus = fresh("pod"), fresh("gpu")
    script = "echo line 1; echo line 2; exec cat $NEMO_JOB_STEP_CONFIG_FILE_PATH"
    watch = ("--watch", "--poll-interval", "1")
    both = [
        create(nemo, "cpu", script, name, *watch, profile="secret"),
        # On a node with GPUs, NVIDIA's runtime says which.
        create(nemo, "gpu", 'echo "devices ${NVIDIA_VISIBLE_DEVICES-unset}"', gpus, *watch, num_gpus=2),
    ]
    watched, on_gpus = (each.told(300) for each in both)
    assert watched.code == 0 and f"Job '{name}' completed" in watched.out, watched
    assert re.findall(r"\| (line \d|\{.*\})", watched.out) == ["line 1", "line 2", '{"x": 1}']
    assert on_gpus.code == 0 and f"Job '{gpus}' completed" in on_gpus.out, on_gpus
    assert "| devices unset" in on_gpus.out
    logs, status = nemo.start("get-logs", name, "--step-id", "one"), nemo.start("get-status", name)
    assert [row["message"] for row in logs.told().data["data"]] == ["line 1", "line 2", '{"x": 1}']
    details = status.told().data["status_details"]
    assert (details["image"], details["namespace"]) == (kubernetes.IMAGE, kubernetes.shared().namespace)
    assert details["pod_name"].startswith(details["job_name"])


def test_the_profiles_and_what_one_of_them_cannot_do(nemo: Command) -> None:
    profiles = nemo.start("list-execution-profiles")
    told = create(nemo, "gpu_distributed", "true", fresh("nodes"), num_nodes=2).told()
    assert told.code == 3
    text = unwrapped(told.err)
    assert text.startswith("Invalid input: (422) Step 'one' asks for num_nodes: 2"), told
    assert "execution profile 'gpu_distributed/default' runs one node only (backend 'kubernetes_job')" in text
    listed = {(each["provider"], each["profile"]): each for each in profiles.told().data}
    assert {each["backend"] for each in listed.values()} == {"kubernetes_job"}
    built_in = {("cpu", "default"), ("gpu", "default"), ("cpu", "gpu"), ("gpu", "gpu")}
    assert set(listed) == built_in | {("cpu", "secret"), ("gpu_distributed", "default")}
    storage = listed["cpu", "secret"]["config"]["storage"]
    assert [each["name"] for each in storage["additional_volumes"]] == ["gates"]
    assert [each["name"] for each in storage["additional_volume_mounts"]] == ["gates"]
