"""The Docker engine that tests may use, and an image for them: no registry is asked for one."""

from __future__ import annotations

from functools import cache
from typing import Any

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.hooks.docker import connect
from tests.busybox import root_filesystem

IMAGE = "nemo-test/busybox:1"
#: A volume that profiles of tests mount, and where.
GATES, GATES_PATH = "nemo-test-gates", "/gates"


@cache
def image() -> str:
    """The name of an image with a shell; the engine has it afterwards."""
    client = connect(None).client()
    if not client.images(IMAGE):
        make_image(client, IMAGE)
    return IMAGE


def make_image(client: Any, name: str, *changes: str) -> None:
    """Have an engine make an image with a shell.

    :param changes: lines of a Dockerfile, such as `USER 1000`
    """
    repository, _, tag = name.rpartition(":")
    client.import_image_from_data(root_filesystem(), repository=repository, tag=tag, changes=list(changes))


def running(job: str) -> list[str]:
    """Ids of the containers of jobs of this name that run."""
    return _containers(job, every=False)


def held(job: str) -> list[str]:
    """Ids of all containers of jobs of this name."""
    return _containers(job, every=True)


def _containers(job: str, *, every: bool) -> list[str]:
    client = connect(None).client()
    return [each["Id"] for each in client.containers(all=every, filters={"label": f"{labels.PREFIX}job_id={job}"})]


def open_gate(name: str) -> None:
    """Make a file in the volume `GATES`."""
    client = connect(None).client()
    mounts = [{"Type": "volume", "Source": GATES, "Target": GATES_PATH}]
    body = {"Image": IMAGE, "Cmd": ["never-started"], "HostConfig": {"Mounts": mounts}}
    container = client.create_container_from_config(body)["Id"]
    try:
        client.put_archive(container, "/", packed([Entry(f"{GATES_PATH}/{name}", 0o644, b"")]))
    finally:
        client.remove_container(container)
