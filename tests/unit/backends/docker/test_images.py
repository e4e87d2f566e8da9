from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.docker.access import Access, Login
from nemo_airflow_provider.backends.docker.images import Images, Progress, is_permanent, login_for
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from tests.waiting import wait_until

IMAGE = "registry.example.org/team/train:1"
PULLING = f"Pulling image {IMAGE} from registry"

PERMANENT = [
    # What engines and registries say: Docker 20 to 29, Docker Hub, GitLab, Harbor, ECR, GAR, NGC.
    (404, "manifest for busybox:nope not found: manifest unknown: manifest unknown"),
    (404, "manifest for quay.io/a/b:c not found: manifest unknown: manifest tagged by c is not found"),
    (404, "pull access denied for nope/nope, repository does not exist or may require 'docker login': denied"),
    (404, 'failed to resolve reference "docker.io/library/busybox:nope": docker.io/library/busybox:nope: not found'),
    (404, "no matching manifest for linux/arm64/v8 in the manifest list entries"),
    (400, "invalid reference format: repository name must be lowercase"),
    (400, "invalid tag format"),
    (403, "Forbidden"),
    (500, 'Head "https://r.example.org/v2/a/manifests/1": unauthorized: authentication required'),
    (500, "Get https://r.example.org/v2/: unauthorized: incorrect username or password"),
    (500, 'Head "https://1.dkr.ecr.us-east-1.amazonaws.com/v2/a/manifests/1": no basic auth credentials'),
    (500, "unauthorized: access to the requested resource is not authorized"),
    (500, "denied: requested access to the resource is denied"),
    (500, "error parsing HTTP 403 response body: denied: Permission denied"),
    (500, "unknown: repository team/train not found"),
    (500, "name unknown: The repository with name 'a' does not exist in the registry"),
    (500, "unsupported media type application/vnd.oci.artifact"),
    (None, "no matching manifest for windows/amd64 10.0.1 in the manifest list entries"),
    (None, "unauthorized: authentication required"),
    (None, 'failed to resolve reference "ghcr.io/a/b:nope": ghcr.io/a/b:nope: not found'),
    (401, "Unauthorized"),
    (500, "unknown: artifact team/train:1 not found"),
]
TRANSIENT = [
    (500, 'Get "https://r.example.org/v2/": dial tcp 10.0.0.1:443: connect: connection refused'),
    (500, 'Get "https://r.example.org/v2/": dial tcp: lookup r.example.org on 10.0.0.2:53: no such host'),
    (500, 'Get "https://r.example.org/v2/": dial tcp: lookup r.example.org: i/o timeout'),
    (500, 'Get "https://r.example.org/v2/": net/http: TLS handshake timeout'),
    (500, 'Get "https://r.example.org/v2/": net/http: request canceled while waiting for connection'),
    (500, 'Get "https://r.example.org/v2/": context deadline exceeded'),
    (500, 'Get "https://r.example.org/v2/": x509: certificate signed by unknown authority'),
    (500, "received unexpected HTTP status: 503 Service Unavailable"),
    (500, "received unexpected HTTP status: 502 Bad Gateway"),
    (
        500,
        "toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and "
        "upgrading: https://www.docker.com/increase-rate-limit",
    ),
    (500, "toomanyrequests: too many failed login attempts for username or IP address"),
    (429, "You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"),
    (403, "toomanyrequests: Rate exceeded"),
    (500, "error parsing HTTP 408 response body: unexpected end of JSON input"),
    (None, "unexpected EOF"),
    (None, "filesystem layer verification failed for digest sha256:0"),
    (None, "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"),
    (None, "failed to register layer: open /var/lib/docker/x: permission denied"),
    (None, "No answer from the Docker engine at unix:///var/run/docker.sock: connection refused. Start it."),
]


@pytest.mark.parametrize(("status", "text"), PERMANENT)
def test_failures_that_no_further_try_mends(status: int | None, text: str) -> None:
    assert is_permanent(status, text)


@pytest.mark.parametrize(("status", "text"), TRANSIENT)
def test_failures_that_may_pass(status: int | None, text: str) -> None:
    assert not is_permanent(status, text)


LOGINS = {
    host: Login(host, "secret")
    for host in ("index.docker.io", "localhost:5000", "ghcr.io", "registry.example.org:8443", "nvcr.io")
}


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("busybox", "index.docker.io"),
        ("busybox:1", "index.docker.io"),
        ("team/train:1", "index.docker.io"),
        ("docker.io/team/train", "index.docker.io"),
        ("index.docker.io/team/train", "index.docker.io"),
        (f"busybox@sha256:{'0' * 64}", "index.docker.io"),
        ("localhost:5000/train:1", "localhost:5000"),
        ("localhost:5001/train:1", None),
        ("ghcr.io/team/train", "ghcr.io"),
        (f"ghcr.io/team/train:1@sha256:{'0' * 64}", "ghcr.io"),
        ("registry.example.org:8443/a/b/c:1", "registry.example.org:8443"),
        ("registry.example.org/a/b/c:1", None),
        ("nvcr.io/nvidia/nemo:25.11", "nvcr.io"),
        ("https://ghcr.io/team/train", None),
        ("-x.y/train", None),
    ],
)
def test_whose_login_is_shown_to_a_registry(image: str, host: str | None) -> None:
    assert login_for(image, LOGINS) == (LOGINS[host] if host else None)
    assert login_for(image, {}) is None


@pytest.mark.parametrize("name", ["docker.io", "index.docker.io"])
def test_docker_hub_has_two_names(name: str) -> None:
    assert login_for("team/train", {name: Login("me", "secret")}) == Login("me", "secret")


def event(layer: str, status: str, current: int | None = None, total: int | None = None) -> dict[str, Any]:
    return {"id": layer, "status": status, "progressDetail": {"current": current, "total": total} if current else {}}


MEGA = 10**6


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([], ""),
        ([event("1", "Pulling from team/train")], ""),
        ([event("a", "Pulling fs layer"), event("b", "Waiting"), event("b", "Pulling fs layer")], "0 of 2 layers"),
        ([event("a", "Already exists"), event("b", "Pulling fs layer")], "1 of 2 layers"),
        (
            [event("a", "Downloading", 12 * MEGA, 40 * MEGA), event("b", "Downloading", MEGA, 60 * MEGA)],
            "0 of 2 layers, 13 of 100 MB",
        ),
        (
            [event("a", "Downloading", 12 * MEGA, 40 * MEGA), event("a", "Download complete")],
            "0 of 1 layers, 40 of 40 MB",
        ),
        (
            [
                event("a", "Downloading", 40 * MEGA, 40 * MEGA),
                event("a", "Extracting", 1, 40 * MEGA),
                event("a", "Pull complete"),
                event("a", "Pull complete"),
            ],
            "1 of 1 layers, 40 of 40 MB",
        ),
        ([{"status": "Status: Downloaded newer image for x"}, {"status": "Digest: sha256:0"}, {}], ""),
        ([{"id": "a", "status": "Downloading", "progressDetail": {"current": 5}}], ""),
    ],
)
def test_progress(events: list[dict[str, Any]], text: str) -> None:
    progress = Progress()
    for each in events:
        progress.take(each)
    assert str(progress) == text


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
            hook(SimpleNamespace(raw=SimpleNamespace(closed=True)))
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
