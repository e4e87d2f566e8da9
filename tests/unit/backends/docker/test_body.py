from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.body import Task, creation_of, loopback_for
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.docker.resources import Resources
from tests.unit.backends.docker.make import config, executor

_TASK_AND_CONFIG = ["/var/run/scratch/task", "/var/run/scratch/config"]


def made(configuration: DockerConfig | None = None, container: dict[str, Any] | None = None, **more: Any) -> Any:
    task = {
        "executor": executor(container=container),
        "image": "busybox:1",
        "labels": {"a": "b"},
        "environment": {},
        "resources": Resources(),
        **more,
    }
    return creation_of(Task(**task), configuration or config())


def test_the_whole_of_a_plain_one() -> None:
    volume_labels = {"whose": "ours"}
    assert made(environment={"A": "1", "B": "x=y\n "}, volume_labels=volume_labels) == {
        "Image": "busybox:1",
        "Env": ["A=1", "B=x=y\n ", "NVIDIA_VISIBLE_DEVICES=void"],
        "Labels": {"a": "b"},
        "HostConfig": {
            "Init": True,
            "NetworkMode": "host",
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {
                "Type": "json-file",
                "Config": {
                    "max-size": "100t",
                    "max-file": "1",
                    "compress": "false",
                    "labels": ",".join(labels.LOGGED),
                },
            },
            "Mounts": [
                {"Type": "volume", "Target": target, "VolumeOptions": {"Labels": volume_labels}}
                for target in _TASK_AND_CONFIG
            ],
        },
    }


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, {}),
        ({"entrypoint": ["/bin/sh", "-c"]}, {"Entrypoint": ["/bin/sh", "-c"]}),
        ({"command": ["echo", "$HOME", "a b", "", "'"]}, {"Cmd": ["echo", "$HOME", "a b", "", "'"]}),
        ({"entrypoint": ["a"], "command": ["b"]}, {"Entrypoint": ["a"], "Cmd": ["b"]}),
        ({"entrypoint": [], "command": []}, {}),
    ],
)
def test_entrypoint_and_command_are_handed_on_word_by_word(container: dict[str, Any], expected: dict[str, Any]) -> None:
    body = made(container={"image": "x", **container})
    assert {name: body[name] for name in ("Entrypoint", "Cmd") if name in body} == expected


@pytest.mark.parametrize(
    ("network", "configured", "hosts", "loopback"),
    [
        ("host", None, None, None),
        ("host", "172.17.0.1", None, "172.17.0.1"),
        ("none", None, None, "host.docker.internal"),
        ("bridge", None, ["host.docker.internal:host-gateway"], "host.docker.internal"),
        ("training", None, ["host.docker.internal:host-gateway"], "host.docker.internal"),
        ("training", "172.17.0.1", ["host.docker.internal:host-gateway"], "172.17.0.1"),
        # The engine refuses names of hosts for a container that has another one's network.
        ("container:proxy", None, None, "host.docker.internal"),
    ],
)
def test_networks(network: str, configured: str | None, hosts: list[str] | None, loopback: str | None) -> None:
    host = made(config(networking={"job_container_network": network}))["HostConfig"]
    assert host["NetworkMode"] == network
    assert host.get("ExtraHosts") == hosts
    assert loopback_for(network, configured) == loopback


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        (
            {"volume_name": "data", "mount_path": "/data"},
            {"Type": "volume", "Source": "data", "Target": "/data"},
        ),
        (
            {"volume_name": "data", "mount_path": "/data", "options": {"NoCopy": True}, "allow_create_volume": True},
            {"Type": "volume", "Source": "data", "Target": "/data", "VolumeOptions": {"NoCopy": True}},
        ),
        (
            {"volume_name": "any", "mount_path": "/fast", "kind": "tmpfs"},
            {"Type": "tmpfs", "Target": "/fast"},
        ),
        (
            {"volume_name": "any", "mount_path": "/fast", "kind": "tmpfs", "options": {"SizeBytes": 4096}},
            {"Type": "tmpfs", "Target": "/fast", "TmpfsOptions": {"SizeBytes": 4096}},
        ),
    ],
)
def test_additional_volumes(mount: dict[str, Any], expected: dict[str, Any]) -> None:
    mounts = made(config(storage={"additional_volume_mounts": [mount]}))["HostConfig"]["Mounts"]
    assert mounts[2:] == [expected]


def test_the_order_of_mounts() -> None:
    storage = {"Type": "bind", "Source": "/v/jobs/w/r", "Target": "/keep"}
    mount = {"volume_name": "data", "mount_path": "/data"}
    configuration = config(storage={"additional_volume_mounts": [mount]})
    mounts = made(configuration, task_directory="/mine", job_storage=storage)["HostConfig"]["Mounts"]
    assert [each["Target"] for each in mounts] == ["/mine", "/var/run/scratch/config", "/keep", "/data"]


def test_gpus_are_asked_for_by_their_ids() -> None:
    host = made(gpus=(0, 3), resources=Resources(gpus=2, shm_bytes=5))["HostConfig"]
    request = {"Driver": "nvidia", "DeviceIDs": ["0", "3"], "Capabilities": [["gpu"]]}
    assert (host["DeviceRequests"], host["ShmSize"]) == ([request], 5)
    assert "DeviceRequests" not in made()["HostConfig"]


@pytest.mark.parametrize(("gpus", "seen"), [((), "void"), ((3,), "3"), ((0, 2), "0,2")])
def test_nothing_shows_a_container_more_gpus_than_it_has(gpus: tuple[int, ...], seen: str) -> None:
    """NVIDIA's runtime gives a container whatever the variable says, and all where there is none."""
    for environment in ({}, {"NVIDIA_VISIBLE_DEVICES": "all"}):
        assert made(environment=environment, gpus=gpus)["Env"] == [f"NVIDIA_VISIBLE_DEVICES={seen}"]
