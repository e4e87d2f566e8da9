from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.docker.access import Access, Login
from nemo_airflow_provider.backends.docker.images import Images
from nemo_airflow_provider.backends.docker.pull import Progress
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from tests.waiting import wait_until

IMAGE = "registry.example.org/team/train:1"
PULLING = f"Pulling image {IMAGE} from registry"

MEGA = 10**6
LOGINS = {"ghcr.io": Login("ghcr.io", "secret"), "nvcr.io": Login("nvcr.io", "secret")}


def event(layer: str, status: str, current: int | None = None, total: int | None = None) -> dict[str, Any]:
    return {"id": layer, "status": status, "progressDetail": {"current": current, "total": total} if current else {}}


@dataclass
class Clock:
    """The time, as it is set."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Registry:
    """An engine whose pulls do what they are told to, one after the other.

    :param pulls: what each does: raises, or sends reports and then waits until it is let go
    """

    pulls: list[Exception | list[dict[str, Any]]] = field(default_factory=list)
    has_image: bool = False
    begun: list[tuple[str, Any]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    ended: int = 0
    hooks: dict[str, list[Any]] = field(default_factory=lambda: {"response": []})

    def inspect_image(self, image: str) -> dict[str, Any]:
        from docker.errors import ImageNotFound

        if not self.has_image:
            raise ImageNotFound(f"no such image: {image}")
        return {}

    def pull(self, image: str, *, stream: bool, decode: bool, auth_config: Any) -> Iterator[dict[str, Any]]:
        assert stream and decode
        self.begun.append((image, auth_config))
        work = self.pulls.pop(0)
        if isinstance(work, Exception):
            raise work
        for hook in self.hooks["response"]:
            hook(SimpleNamespace(raw=None, close=lambda: None))
        return self._reports(work)

    def _reports(self, events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from events
        assert self.let_go.wait(60)
        yield event("z", "Waiting")

    def close(self) -> None:
        self.ended += 1


@dataclass
class Bench:
    images: Images
    registry: Registry
    clock: Clock

    def ask(self, image: str = IMAGE) -> str:
        """What is said to who needs the image now."""
        with pytest.raises(CapacityError) as told:
            self.images.require(cast("Any", self.registry), image)
        return str(told.value)

    def refused(self, image: str = IMAGE) -> StartError:
        with pytest.raises(StartError) as told:
            self.images.require(cast("Any", self.registry), image)
        return told.value

    def settle(self) -> None:
        """Wait until every pull that has begun is over."""
        wait_until(lambda: all(thread.name != "nemo-image-pull" for thread in threading.enumerate()))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    registry, clock = Registry(), Clock()
    monkeypatch.setattr(Access, "client", lambda _: registry)
    yield Bench(Images(Access(logins=LOGINS), ttl_seconds=600, clock=clock), registry, clock)
    registry.let_go.set()


def engine_error(status: int, text: str) -> Exception:
    from docker.errors import APIError
    from requests import Response

    answer = Response()
    answer.status_code = status
    error: Exception = APIError(text, answer, text)
    return error


def test_an_image_that_is_there_is_not_pulled(bench: Bench) -> None:
    bench.registry.has_image = True
    bench.images.require(cast("Any", bench.registry), IMAGE)
    assert bench.registry.begun == []


def test_an_image_is_pulled_once_however_often_it_is_asked_for(bench: Bench) -> None:
    bench.registry.pulls = [[event("a", "Downloading", 12 * MEGA, 40 * MEGA)]]
    bench.ask()
    wait_until(lambda: bench.ask() == f"{PULLING}: 0 of 1 layers, 12 of 40 MB")
    bench.registry.has_image = True
    bench.images.require(cast("Any", bench.registry), IMAGE)
    assert [image for image, _ in bench.registry.begun] == [IMAGE]


def test_the_login_of_its_registry_is_shown(bench: Bench) -> None:
    bench.registry.pulls = [[], []]
    for image in ("ghcr.io/team/train:1", "quay.io/team/train:1"):
        bench.ask(image)
    wait_until(lambda: len(bench.registry.begun) == 2)
    assert sorted(bench.registry.begun, key=str) == [
        ("ghcr.io/team/train:1", {"username": "ghcr.io", "password": "secret"}),
        ("quay.io/team/train:1", None),
    ]


def test_another_image_ends_the_pull_of_the_first(bench: Bench) -> None:
    bench.registry.pulls = [[], []]
    bench.ask()
    wait_until(lambda: bench.registry.begun)
    bench.ask("other:1")
    bench.registry.let_go.set()
    wait_until(lambda: bench.registry.ended == 2)


@pytest.mark.parametrize(
    "failure",
    [
        engine_error(404, "manifest for a:b not found:\n manifest unknown"),
        [{"error": "manifest for a:b not found: manifest unknown", "errorDetail": {}}],
    ],
)
def test_a_failure_for_good_is_told_at_once(bench: Bench, failure: Any) -> None:
    bench.registry.pulls = [failure]
    bench.ask()
    bench.settle()
    error = bench.refused()
    words = "manifest for a:b not found: manifest unknown"
    assert (str(error), error.detail) == (f"Failed to pull image {IMAGE}: {words}", words)
    assert len(bench.registry.begun) == 1


@pytest.mark.parametrize("image", ["http://x/y", "-x.y/z"])
def test_a_name_that_the_client_itself_refuses(bench: Bench, image: str) -> None:
    from docker.errors import InvalidRepository

    bench.registry.pulls = [InvalidRepository("Repository name cannot contain a scheme")]
    bench.ask(image)
    bench.settle()
    assert str(bench.refused(image)) == f"Failed to pull image {image}: Repository name cannot contain a scheme"


def test_a_name_that_the_engine_refuses(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect(_: str) -> None:
        raise engine_error(400, "no such image: UPPER: invalid reference format: repository name must be lowercase")

    monkeypatch.setattr(bench.registry, "inspect_image", inspect)
    assert str(bench.refused("UPPER")) == (
        "Failed to pull image UPPER: no such image: UPPER: invalid reference format: repository name must be lowercase"
    )


def test_a_name_that_is_a_path_is_not_looked_up_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine knows no page of that name; that it is none is said to the pull."""
    from docker.errors import NotFound

    def inspect(_: str) -> None:
        raise NotFound("page not found")

    monkeypatch.setattr(bench.registry, "inspect_image", inspect)
    bench.registry.pulls = [engine_error(400, "invalid reference format")]
    bench.ask("../version")
    bench.settle()
    assert str(bench.refused("../version")) == "Failed to pull image ../version: invalid reference format"


def test_other_refusals_of_the_engine_are_not_the_images(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from docker.errors import APIError

    def inspect(_: str) -> None:
        raise engine_error(500, "layer does not exist")

    monkeypatch.setattr(bench.registry, "inspect_image", inspect)
    with pytest.raises(APIError, match="layer does not exist"):
        bench.images.require(cast("Any", bench.registry), IMAGE)


def test_a_failure_that_may_pass_is_tried_again_ever_more_slowly(bench: Bench) -> None:
    bench.registry.pulls = [engine_error(500, "received unexpected HTTP status: 503")] * 20
    assert bench.ask() == PULLING
    bench.settle()
    begun: list[float] = []
    for _ in range(200):
        sentence = bench.ask()
        if len(bench.registry.begun) > len(begun):
            begun.append(bench.clock.now)
        bench.settle()
        bench.clock.now += 1
    failed = "It is tried again, since it failed: received unexpected HTTP status: 503"
    assert sentence == f"{PULLING}. {failed}"
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert pauses[:5] == [2, 4, 8, 16, 32]
    assert set(pauses[5:]) == {60}


def test_an_image_that_fails_for_too_long_is_given_up(bench: Bench) -> None:
    bench.registry.pulls = [BackendError("No answer from the engine")] * 100
    bench.ask()
    bench.settle()
    bench.ask()
    bench.clock.now += 600
    bench.ask()
    bench.clock.now += 1
    bench.settle()
    error = bench.refused()
    assert str(error) == (
        f"Failed to pull image {IMAGE}: image pull did not succeed within 600s: No answer from the engine"
    )


def test_an_image_that_is_never_there_after_its_pull_is_tried_again_for_a_while(bench: Bench) -> None:
    """Such as when the engine's answer is cut off again and again."""
    bench.registry.pulls = [[]] * 100
    bench.registry.let_go.set()
    bench.ask()
    failed = "It is tried again, since it failed: The engine ended the pull, but does not have the image."
    for _ in range(5):
        bench.settle()
        assert bench.ask() == f"{PULLING}. {failed}"
    assert len(bench.registry.begun) == 1
    bench.clock.now += 2
    bench.ask()
    assert len(bench.registry.begun) == 2
    bench.clock.now += 600
    bench.settle()
    assert "image pull did not succeed within 600s: The engine ended" in str(bench.refused())


def test_an_image_that_was_removed_after_its_pull_is_pulled_at_once(bench: Bench) -> None:
    bench.registry.pulls = [[], []]
    bench.ask()
    bench.registry.has_image = True
    bench.registry.let_go.set()
    bench.settle()
    bench.registry.has_image = False
    assert bench.ask() == PULLING
    assert len(bench.registry.begun) == 2


def test_a_pull_that_stands_still_for_too_long_is_given_up(bench: Bench) -> None:
    bench.registry.pulls = [[event("a", "Downloading", MEGA, 40 * MEGA)]]
    bench.ask()
    wait_until(lambda: "1 of 40 MB" in bench.ask())
    bench.clock.now += 600
    bench.ask()
    bench.clock.now += 1
    assert str(bench.refused()).endswith("image pull did not succeed within 600s: nothing moves")
    bench.registry.let_go.set()
    bench.settle()


def test_a_pull_that_moves_may_take_longer(bench: Bench) -> None:
    progress = Progress(bench.clock)
    for current in range(1, 5):
        bench.clock.now += 500
        progress.take(event("a", "Downloading", current * MEGA, 40 * MEGA))
        assert progress.moved_at == bench.clock.now
    for same in (event("a", "Downloading", 4 * MEGA, 40 * MEGA), event("a", "Waiting")):
        bench.clock.now += 1
        progress.take(same)
        assert progress.moved_at == bench.clock.now - (1 if same["status"] == "Downloading" else 2)
    progress.take(event("a", "Extracting", 1, 2))
    assert progress.moved_at == bench.clock.now


def test_without_a_limit_nothing_is_given_up(bench: Bench) -> None:
    bench.images = Images(Access(), ttl_seconds=0, clock=bench.clock)
    bench.registry.pulls = [BackendError("away")] * 3
    bench.ask()
    for _ in range(2):
        bench.settle()
        bench.clock.now += 10**6
        bench.ask()
    bench.settle()


def test_a_success_ends_the_count_of_failures(bench: Bench) -> None:
    bench.registry.pulls = [BackendError("away"), [], BackendError("away")]
    bench.ask()
    bench.settle()
    bench.ask()
    bench.registry.has_image = True
    bench.images.require(cast("Any", bench.registry), IMAGE)
    bench.registry.has_image = False
    bench.clock.now += 10**6
    assert bench.ask() == PULLING


def test_a_pull_that_nobody_wants_any_more_ends(bench: Bench) -> None:
    bench.registry.pulls = [[event("a", "Waiting")], []]
    bench.ask()
    wait_until(lambda: bench.registry.begun)
    bench.images.give_up()
    bench.images.give_up()
    bench.registry.let_go.set()
    wait_until(lambda: bench.registry.ended == 1)
    assert bench.ask() == PULLING
