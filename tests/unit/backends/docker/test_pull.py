from __future__ import annotations

import json
import socketserver
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.docker.access import Access, Login
from nemo_airflow_provider.backends.docker.pull import Progress, Pull, fetch, is_permanent, login_for
from nemo_airflow_provider.errors import BackendError
from tests.waiting import wait_until

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
class Engine:
    """An engine that sends what it is told to of a pull, over real sockets.

    :param reports: of the pull, as they are sent
    :param end: how its answer ends: well, cut off, or not before the caller hangs up
    :param has_image: whether it has the image afterwards
    """

    reports: tuple[bytes, ...] = ()
    end: str = "well"
    has_image: bool = False
    hung_up: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(engine: Engine, transport: str = "unix", certificate: Path | None = None) -> Iterator[Access]:
    """The way to it, by `unix`, `tcp` or `tls`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            if transport == "tls":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                assert certificate is not None
                context.load_cert_chain(certificate)
                self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def do_GET(self) -> None:
            known = self.path == "/version" or engine.has_image
            body = json.dumps({"ApiVersion": "1.41"} if known else {"message": "no such image"}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for each in engine.reports:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
            if engine.end == "well":
                self.wfile.write(b"0\r\n\r\n")
            if engine.end == "hangs" and self.rfile.read(1) == b"":
                engine.hung_up.set()
            self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    kind = socketserver.ThreadingUnixStreamServer if transport == "unix" else socketserver.ThreadingTCPServer
    with tempfile.TemporaryDirectory(prefix="nemo-") as place:
        path = f"{place}/docker.sock"
        with kind(path if transport == "unix" else ("127.0.0.1", 0), Handler) as server:  # type: ignore[arg-type]
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield _way(transport, path if transport == "unix" else str(server.server_address[1]))
            finally:
                server.shutdown()
                thread.join()


def _way(transport: str, address: str) -> Access:
    from docker.tls import TLSConfig

    if transport == "unix":
        return Access(f"unix://{address}")
    return Access(f"tcp://127.0.0.1:{address}", TLSConfig(verify=False) if transport == "tls" else None)


def ended(engine: Engine) -> Pull:
    """A pull, once it is over."""
    with serving(engine) as access:
        pull = Pull(access, "busybox:1", time.monotonic)
        wait_until(lambda: pull.is_over)
        pull.give_up()
        return pull


REPORT = json.dumps(event("a", "Downloading", MEGA, 40 * MEGA)).encode()


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (Engine((REPORT,), "cut off"), "it broke off in the middle of an answer"),
        (Engine((REPORT, b'{"status": "Wai'), "well"), "it broke off in the middle of an answer"),
        (Engine((REPORT, b"\xff\r\n"), "well"), "it broke off in the middle of an answer"),
        (Engine((REPORT, b"[1]"), "well"), "broke off: "),
        (Engine((REPORT,), "well"), "The engine ended the pull, but does not have the image."),
        # Whatever else: the thread says how it ended.
        (Engine((b'{"progressDetail": {"total": "x"}, "status": "Downloading"}',), "well"), "broke off: "),
    ],
)
def test_a_pull_that_ends_without_its_image_has_failed_for_now(engine: Engine, reason: str) -> None:
    pull = ended(engine)
    assert reason in str(pull.failure)
    assert not pull.is_permanent


def test_a_pull_that_ends_well() -> None:
    pull = ended(Engine((REPORT,), has_image=True))
    assert (pull.failure, str(pull.progress)) == (None, "0 of 1 layers, 1 of 40 MB")


def test_what_is_waited_for_and_not_there_is_told() -> None:
    engine = Engine((REPORT,))
    with serving(engine) as access:
        with pytest.raises(BackendError, match="Failed to pull image busybox:1: The engine ended the pull, but"):
            fetch(access, "busybox:1", 60)
        engine.has_image = True
        fetch(access, "busybox:1", 60)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
def test_a_pull_that_is_given_up_hangs_up(transport: str, certificate: Path) -> None:
    engine = Engine((REPORT,), "hangs")
    with serving(engine, transport, certificate) as access:
        pull = Pull(access, "busybox:1", time.monotonic)
        wait_until(lambda: str(pull.progress))
        assert not pull.is_over
        pull.give_up()
        wait_until(lambda: pull.is_over and engine.hung_up.is_set())
        pull.give_up()
