"""Images that the engine must pull first."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase, Workload
from nemo_airflow_provider.backends.docker.access import Login
from nemo_airflow_provider.errors import CapacityError, StartError
from nemo_airflow_provider.hooks.docker import connect
from tests.contract.test_backend import end, text
from tests.docker.dock import Dock
from tests.docker.registry import Registry, registry
from tests.waiting import wait_until


@pytest.fixture
def served(dock: Dock) -> Iterator[Registry]:
    from docker.errors import NotFound

    with registry() as made:
        yield made
        dock.clear()
        with suppress(NotFound):
            dock.client.remove_image(made.image, force=True)


def step(dock: Dock, served: Registry) -> Workload:
    return dock.task("/bin/sh", "-c", "echo pulled", image=served.image)


def asked(backend: Backend, workload: Workload) -> str:
    """What is waited for; nothing once it has started."""
    try:
        backend.submit(workload)
    except CapacityError as error:
        return str(error)
    return ""


def told(backend: Backend, workload: Workload, pattern: str) -> str:
    """Ask until what is waited for is told so."""

    def look() -> str | None:
        words = asked(backend, workload)
        assert words, "it has started"
        return words if re.search(pattern, words) else None

    return wait_until(look, 120, pattern, pause_seconds=0.05)


def runs(dock: Dock, backend: Backend, workload: Workload) -> None:
    wait_until(lambda: not asked(backend, workload), 120, "it to start", pause_seconds=0.05)
    assert end(dock, backend).exit_code == 0
    assert text(backend, dock.key()) == b"pulled\n"


def refused(backend: Backend, workload: Workload) -> StartError:
    with pytest.raises(StartError) as found:
        wait_until(lambda: not asked(backend, workload), 120, "a refusal", pause_seconds=0.05)
    return found.value


def gives_up(dock: Dock, served: Registry) -> None:
    """Nobody waits for the engine any more, though it has nothing to report; that alone makes it stop."""
    from docker.errors import ImageNotFound

    wait_until(lambda: all(each.name != "nemo-image-pull" for each in threading.enumerate()), what="the pull's end")
    served.gate.set()
    with pytest.raises(ImageNotFound):
        dock.client.inspect_image(served.image)


def test_a_slow_pull_says_how_far_it_is(dock: Dock, served: Registry) -> None:
    served.gate.clear()
    backend, workload = dock.backend(), step(dock, served)
    beginning = f"Pulling image {served.image} from registry"
    assert asked(backend, workload) == beginning
    words = told(backend, workload, "MB")
    megabytes = len(served.layer) / 1e6
    found = re.fullmatch(rf"{re.escape(beginning)}: 0 of 1 layers, (\d+) of {megabytes:.0f} MB", words)
    assert found, words
    assert backend.observe(dock.key()).phase is Phase.ABSENT
    told(backend, workload, r"[1-9]\d* of \d+ MB")
    served.gate.set()
    runs(dock, backend, workload)


def test_a_registry_that_is_out_of_order_is_asked_again(dock: Dock, served: Registry) -> None:
    served.status = 503
    backend, workload = dock.backend(), step(dock, served)
    words = told(backend, workload, "It is tried again")
    assert f"Pulling image {served.image} from registry. It is tried again, since it failed: " in words
    assert "503 Service Unavailable" in words
    served.status = None
    runs(dock, backend, workload)


def test_a_pull_that_keeps_failing_ends_with_its_time(dock: Dock, served: Registry) -> None:
    served.status = 503
    backend = dock.backend(ttl_seconds_image_pull=1)
    error = refused(backend, step(dock, served))
    assert str(error).startswith(
        f"Failed to pull image {served.image}: image pull did not succeed within 1s: received unexpected HTTP status"
    )
    assert dock.containers() == []


def test_a_pull_that_stands_still_ends_with_its_time(dock: Dock, served: Registry) -> None:
    served.gate.clear()
    error = refused(dock.backend(ttl_seconds_image_pull=2), step(dock, served))
    expected = f"Failed to pull image {served.image}: image pull did not succeed within 2s: nothing moves"
    assert str(error) == expected
    gives_up(dock, served)


def test_an_image_that_is_not_there_is_not_waited_for(dock: Dock, served: Registry) -> None:
    backend = dock.backend()
    other = dock.task("true", image=f"{served.host}/nemo/other:1")
    error = refused(backend, other)
    assert re.match(rf"Failed to pull image {served.host}/nemo/other:1: .*manifest unknown", str(error)), error
    error = refused(backend, dock.task("true", image="UPPER/case", key=dock.key("evaluate")))
    assert re.match("Failed to pull image UPPER/case: .*invalid reference format", str(error)), error


def test_a_registry_that_wants_a_login_gets_the_connections(dock: Dock, served: Registry) -> None:
    served.login = ("somebody", "pass:wörd")
    workload = step(dock, served)
    for logins in ({}, {served.host: Login("somebody", "wrong")}, {"127.0.0.1:1": Login(*served.login)}):
        error = refused(dock.backend(access={"logins": logins}), workload)
        assert str(error).startswith(f"Failed to pull image {served.image}: ")
        assert "wrong" not in str(error)
    runs(dock, dock.backend(access={"logins": {served.host: Login(*served.login)}}), workload)


def test_a_registry_that_wants_a_login_gets_the_environments(
    dock: Dock, served: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.login = ("somebody", "secret")
    for name, value in (("", served.host), ("_USER_NAME", "somebody"), ("_PASSWORD", "secret")):
        monkeypatch.setenv(f"NEMO_JOBS_IMAGE_REGISTRY{name}", value)
    runs(dock, dock.backend(access={"logins": connect(None).logins}), step(dock, served))


def test_a_registry_that_is_not_there_may_come_back(dock: Dock) -> None:
    image = "127.0.0.1:1/nemo/test:1"
    words = told(dock.backend(), dock.task("true", image=image), "It is tried again")
    assert "connection refused" in words


def test_a_cancel_ends_the_engines_pull_at_once(dock: Dock, served: Registry) -> None:
    served.gate.clear()
    backend = dock.backend()
    told(backend, step(dock, served), "MB")
    wait_until(served.is_still.is_set, what="the engine to have nothing to report")
    backend.stop(dock.key(), 30)
    gives_up(dock, served)
    assert backend.observe(dock.key()).phase is Phase.ABSENT
    assert dock.containers() == []


def test_an_image_that_is_there_is_not_pulled(dock: Dock, served: Registry) -> None:
    served.status = 503
    repository, _, tag = served.image.rpartition(":")
    dock.client.tag(dock.image, repository, tag)
    runs(dock, dock.backend(), step(dock, served))
