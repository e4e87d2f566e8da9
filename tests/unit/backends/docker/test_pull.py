from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.docker.access import Login
from nemo_airflow_provider.backends.docker.pull import Progress, is_permanent, login_for

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
