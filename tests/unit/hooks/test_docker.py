"""The way to an engine and its registries, out of Airflow's connection and the process's environment."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from airflow.models.connection import Connection

from nemo_airflow_provider.backends.docker.access import SOCKET, Access, Login
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.docker import connect

REGISTRY = "NEMO_JOBS_IMAGE_REGISTRY"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own engine."""
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name in (REGISTRY, f"{REGISTRY}_USER_NAME", f"{REGISTRY}_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def connected(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any] | None = None, **fields: Any) -> Access:
    connection = Connection(conn_type="docker", extra=json.dumps(extra) if extra else None, **fields)
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection.as_json())
    return connect("lab")


def test_the_hosts_own_engine() -> None:
    assert connect(None) == Access(SOCKET)


def test_the_hosts_own_engine_as_its_variables_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine:2375")
    assert connect(None) == Access("tcp://engine:2375")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text("x")
    return tmp_path


@pytest.mark.parametrize(("verify", "verified"), [(None, False), ("1", True)])
def test_tls_of_the_variables(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, verify: str | None, verified: bool
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine:2376")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))
    if verify:
        monkeypatch.setenv("DOCKER_TLS_VERIFY", verify)
    tls = connect(None).tls
    assert tls.cert == (str(certificates / "cert.pem"), str(certificates / "key.pem"))
    assert (tls.ca_cert, tls.verify) == (str(certificates / "ca.pem"), verified)


def test_tls_of_the_variables_without_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(BackendError) as told:
        connect(None)
    assert str(told.value) == (
        "The variables DOCKER_TLS_VERIFY and DOCKER_CERT_PATH ask for TLS with the Docker engine, and "
        f"{tmp_path} has not all of ca.pem, cert.pem and key.pem."
    )


def test_a_connection_names_its_engine_and_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://other:2375")
    extra = {"docker_url": "tcp://engine:2375", "email": "me@example.org"}
    found = connected(monkeypatch, extra, host="ghcr.io", login="me", password="secret")
    assert found == Access("tcp://engine:2375", None, {"ghcr.io": Login("me", "secret")}, "lab")


def test_a_connection_of_a_registry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://own:2375")
    found = connected(monkeypatch, host="localhost", port=5000, login="me", password="secret")
    assert found == Access("tcp://own:2375", None, {"localhost:5000": Login("me", "secret")}, "lab")


@pytest.mark.parametrize(
    ("fields", "registry"),
    [
        ({"host": "ghcr.io"}, "ghcr.io"),
        ({"host": "https://index.docker.io/v1/"}, "index.docker.io"),
        ({"host": "https://registry.example.org", "port": 8443}, "registry.example.org:8443"),
        ({"host": "https://registry.example.org/team/", "port": 8443}, "registry.example.org:8443"),
        ({"host": "registry.example.org:8443"}, "registry.example.org:8443"),
    ],
)
def test_how_an_images_name_begins(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], registry: str) -> None:
    assert list(connected(monkeypatch, login="me", **fields).logins.items()) == [(registry, Login("me", ""))]


@pytest.mark.parametrize("fields", [{"host": "ghcr.io"}, {"login": "me", "password": "secret"}, {}])
def test_what_is_no_login(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    assert connected(monkeypatch, **fields).logins == {}


@pytest.mark.parametrize(
    ("environment", "logins"),
    [
        ({}, {}),
        ({"": "ghcr.io"}, {}),
        ({"_USER_NAME": "me", "_PASSWORD": "secret"}, {}),
        ({"": "", "_USER_NAME": "me"}, {}),
        ({"": "ghcr.io", "_USER_NAME": "me"}, {"ghcr.io": Login("me", "")}),
        (
            {"": "https://r.example.org:8443/team", "_USER_NAME": "me", "_PASSWORD": "p:w d"},
            {"r.example.org:8443": Login("me", "p:w d")},
        ),
    ],
)
def test_the_login_of_upstreams_variables(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], logins: dict[str, Login]
) -> None:
    for suffix, value in environment.items():
        monkeypatch.setenv(REGISTRY + suffix, value)
    assert connect(None).logins == logins


def test_a_connections_login_wins_over_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix, value in {"": "ghcr.io", "_USER_NAME": "they", "_PASSWORD": "theirs"}.items():
        monkeypatch.setenv(REGISTRY + suffix, value)
    assert connected(monkeypatch, host="ghcr.io", login="me", password="mine").logins == {
        "ghcr.io": Login("me", "mine")
    }
    both = connected(monkeypatch, host="nvcr.io", login="me", password="mine").logins
    assert both == {"ghcr.io": Login("they", "theirs"), "nvcr.io": Login("me", "mine")}


ENGINE = {"docker_url": "tcp://engine:2376"}


@pytest.mark.parametrize(
    ("verify", "verified"),
    [
        (None, True),
        ("", True),
        (True, True),
        (1, True),
        ("True", True),
        (" on ", True),
        (False, False),
        (0, False),
        ("false", False),
        ("No", False),
        ("0", False),
    ],
)
def test_tls_of_a_connection(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, verify: object, verified: bool
) -> None:
    paths = {
        "tls_ca_cert": str(certificates / "ca.pem"),
        "tls_client_cert": str(certificates / "cert.pem"),
        "tls_client_key": str(certificates / "key.pem"),
    }
    tls = connected(monkeypatch, {**ENGINE, **paths, "tls_verify": verify}).tls
    assert tls.cert == (paths["tls_client_cert"], paths["tls_client_key"])
    assert (tls.ca_cert, tls.verify) == (paths["tls_ca_cert"], verified)


@pytest.mark.parametrize("verify", ["maybe", 2, ["true"], {}])
def test_what_is_neither_true_nor_false(monkeypatch: pytest.MonkeyPatch, verify: object) -> None:
    with pytest.raises(BackendError) as told:
        connected(monkeypatch, {**ENGINE, "tls_verify": verify})
    assert str(told.value) == f"Connection 'lab': tls_verify in its extra is {verify!r}; it is true or false."


def test_an_engine_that_asks_nobody_for_a_certificate(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> None:
    tls = connected(monkeypatch, {**ENGINE, "tls_ca_cert": str(certificates / "ca.pem")}).tls
    assert (tls.ca_cert, tls.cert, tls.verify) == (str(certificates / "ca.pem"), None, True)


def test_an_engine_whose_authority_is_known_to_all(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> None:
    files = {"tls_client_cert": str(certificates / "cert.pem"), "tls_client_key": str(certificates / "key.pem")}
    tls = connected(monkeypatch, {**ENGINE, **files}).tls
    assert (tls.ca_cert, tls.cert, tls.verify) == (None, tuple(files.values()), True)


@pytest.mark.parametrize(
    ("url", "verify", "expected"),
    [
        ("tcp://engine:2376", None, None),
        ("tcp://engine:2376", False, None),
        ("tcp://engine:2376", True, True),
        ("https://engine:2376", None, None),
        ("https://engine:2376", "false", False),
        ("https://engine:2376", True, True),
        ("unix:///run/docker.sock", True, None),
        ("ssh://engine", True, None),
    ],
)
def test_tls_without_a_file(monkeypatch: pytest.MonkeyPatch, url: str, verify: object, expected: bool | None) -> None:
    tls = connected(monkeypatch, {"docker_url": url, "tls_verify": verify}).tls
    assert (tls and tls.verify) is expected


@pytest.mark.parametrize("extra", [{"tls_verify": True}, {"tls_ca_cert": "ca.pem"}])
def test_an_address_that_has_no_tls(monkeypatch: pytest.MonkeyPatch, certificates: Path, extra: dict[str, Any]) -> None:
    given = {name: str(certificates / value) if isinstance(value, str) else value for name, value in extra.items()}
    with pytest.raises(BackendError, match="begins with http://, which has none"):
        connected(monkeypatch, {"docker_url": "http://engine:2375", **given})


@pytest.mark.parametrize("one", ["tls_client_cert", "tls_client_key"])
def test_half_of_a_clients_certificate(monkeypatch: pytest.MonkeyPatch, certificates: Path, one: str) -> None:
    with pytest.raises(BackendError) as told:
        connected(monkeypatch, {**ENGINE, one: str(certificates / "cert.pem")})
    assert str(told.value) == (
        "Connection 'lab': its extra has one of tls_client_cert and tls_client_key; the engine needs both or neither."
    )


@pytest.mark.parametrize("wrong", [["tls_ca_cert"], ["tls_client_cert", "tls_client_key"]])
@pytest.mark.parametrize("path", ["/nowhere/x.pem", "/tmp", 1, ["x"]])
def test_tls_of_a_connection_without_its_files(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, wrong: list[str], path: object
) -> None:
    paths = {name: str(certificates / "ca.pem") for name in ("tls_ca_cert", "tls_client_cert", "tls_client_key")}
    with pytest.raises(BackendError) as told:
        connected(monkeypatch, {**ENGINE, **paths, **dict.fromkeys(wrong, path)})
    assert str(told.value) == (
        f"Connection 'lab': {', '.join(wrong)} in its extra must be the path of a file on the worker that the "
        "worker's user may read."
    )


@pytest.mark.parametrize("files", [["tls_ca_cert"], ["tls_client_cert", "tls_client_key"]])
def test_files_that_are_no_certificates_are_told(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, files: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        extra = {"docker_url": url, **dict.fromkeys(files, str(certificates / "ca.pem"))}
        with pytest.raises(BackendError, match=f"TLS with the Docker engine at {url} failed: "):
            connected(monkeypatch, extra).client()


def test_tls_without_an_address_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> None:
    """The host's own engine would be used, and the certificates by nobody."""
    paths = {name: str(certificates / "ca.pem") for name in ("tls_ca_cert", "tls_client_cert", "tls_client_key")}
    with pytest.raises(BackendError) as told:
        connected(monkeypatch, paths)
    assert str(told.value) == (
        "Connection 'lab': its extra has tls_ca_cert, tls_client_cert, tls_client_key and no docker_url; name the "
        "engine there, such as tcp://host:2376."
    )


def test_a_connection_that_there_is_not() -> None:
    with pytest.raises(BackendError) as told:
        connect("nowhere")
    assert str(told.value).startswith(
        "Airflow connection 'nowhere', which the profile's docker_conn_id names, cannot be had: "
    )
