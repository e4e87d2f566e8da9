"""The Docker engine that is measured: an image of the bench's own, plain `docker run`, and nothing left behind."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from bench.registry import Skipped
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.docker import connect
from tests.stack import docker, engines

if TYPE_CHECKING:
    from docker import APIClient

#: Its name is used by no other run of the bench: whatever is made from it is ours, and may be removed.
IMAGE = f"nemo-bench/busybox:{secrets.token_hex(6)}"
#: Of all that is compared, so that no network is set up in one of them only.
NETWORK = "host"
PROVIDER, PROFILE = "cpu", "bench-docker"


def profile() -> dict[str, Any]:
    """The profile whose steps are measured, as an entry of `executors`; everything but the image is the default."""
    network = {"job_container_network": NETWORK}
    config = {"default_task_image": IMAGE, "networking": network}
    return {"provider": PROVIDER, "profile": PROFILE, "backend": "docker", "config": config}


def executor(command: list[str]) -> dict[str, Any]:
    """Of a step that runs this in a container of the profile."""
    return {"provider": PROVIDER, "profile": PROFILE, "container": {"image": IMAGE, "command": command}}


@cache
def lacking() -> str | None:
    """Why Docker cannot be measured here, in a sentence; None where it can."""
    if lack := BACKENDS["docker"].lack:
        return f"{lack.reason}: {lack.remedy}."
    if reason := engines.missing("docker"):
        return reason
    try:
        with closing(connect(None).client()):
            return None
    except BackendError as error:
        return str(error)


def require() -> None:
    """Go on where Docker can be measured.

    :raises Skipped: it cannot
    """
    if reason := lacking():
        raise Skipped(reason)


@contextmanager
def prepared() -> Iterator[None]:
    """Have the image, for the length of a block; afterwards it and all that was made from it is removed.

    Where Docker cannot be measured, nothing is done.
    """
    if lacking():
        yield
        return
    with closing(connect(None).client()) as client:
        try:
            docker.make_image(client, IMAGE)
            yield
        finally:
            remove(client)


def remove(client: APIClient) -> None:
    """Remove the containers of the image, their volumes, and the image, as far as they are there."""
    from docker.errors import APIError, NotFound

    for container in client.containers(all=True, filters={"ancestor": IMAGE}):
        with contextlib.suppress(APIError):  # somebody else removes it
            client.remove_container(container["Id"], force=True, v=True)
    with contextlib.suppress(NotFound):
        client.remove_image(IMAGE, force=True)


def seconds_of_plain_runs(times: int) -> float:
    """So many times `docker run --rm --network host IMAGE true`, one after the other, with Docker's client for Python.

    :raises RuntimeError: one did not end with 0
    """
    with closing(connect(None).client()) as client:
        began = time.perf_counter()
        for _ in range(times):
            _run(client)
        return time.perf_counter() - began


def _run(client: APIClient) -> None:
    body: Mapping[str, Any] = {"Image": IMAGE, "Cmd": ["true"], "HostConfig": {"NetworkMode": NETWORK}}
    container = client.create_container_from_config(body)["Id"]
    try:
        client.start(container)
        code = client.wait(container)["StatusCode"]
    finally:
        client.remove_container(container, force=True, v=True)
    if code != 0:
        raise RuntimeError(f"a plain container ended with exit code {code}")
