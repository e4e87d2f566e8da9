"""What is said of an engine that cannot be used; the faults are real ones, of real sockets."""

from __future__ import annotations

import gc
import os
import re
import socket
import ssl
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_airflow_provider.backends.docker.access import SOCKET, Access, Login
from nemo_airflow_provider.errors import BackendError

#: The engine's client leaves sockets that it could not connect to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
_NOBODY = 65534
_OWN_REMEDY = "Start it, or name an engine that runs by the profile's docker_conn_id or the variable DOCKER_HOST."


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """What this module leaves to the garbage collector is no other's fault."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody may look into, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="nemo-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def told(access: Access) -> str:
    with pytest.raises(BackendError) as error:
        access.client().close()
    return str(error.value)


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where each caller is served so, one after the other."""

    def run() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return  # closed
            with closing(connection):
                try:
                    serve(connection)
                except OSError:
                    continue  # the caller has gone

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def answering(answer: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(answer)

    return serve


def test_a_socket_that_is_not_there(place: Path) -> None:
    url = f"unix://{place}/docker.sock"
    assert told(Access(url)) == f"No answer from the Docker engine at {url}: no such file or directory. {_OWN_REMEDY}"


def test_an_engine_of_a_connection_is_mended_there(place: Path) -> None:
    url = f"unix://{place}/docker.sock"
    expected = "Start it, or see docker_url in the extra of connection 'Lab GPU'."
    assert told(Access(url, connection="Lab GPU")).endswith(f": no such file or directory. {expected}")


def test_a_socket_where_nobody_listens(place: Path) -> None:
    path = place / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    assert told(Access(f"unix://{path}")).startswith(
        f"No answer from the Docker engine at unix://{path}: connection refused. Start it"
    )


def test_a_port_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    assert told(Access(url)).startswith(f"No answer from the Docker engine at {url}: connection refused. Start it")


def test_a_host_that_there_is_not() -> None:
    url = "tcp://engine.invalid:2375"
    sentence = told(Access(url))
    assert re.match(f"No answer from the Docker engine at {url}: .*(name|resolution)", sentence)


@pytest.fixture
def unprivileged() -> Iterator[str]:
    """Be a user whom permissions hold back; his name."""
    if os.geteuid() != 0:
        import pwd

        yield pwd.getpwuid(os.geteuid()).pw_name
        return
    os.seteuid(_NOBODY)
    try:
        yield "nobody"
    finally:
        os.seteuid(0)


def test_a_socket_that_the_user_may_not_use(
    place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        path.chmod(0o000)
        monkeypatch.setenv("LOGNAME", "somebody-else")
        user = request.getfixturevalue("unprivileged")
        assert told(Access(f"unix://{path}")) == (
            f"User '{user}' may not use the Docker engine at unix://{path}: permission denied. Make the user a "
            "member of the socket's group (usually docker) and start the worker again."
        )


def tls(ca: Path | None = None) -> Any:
    from docker.tls import TLSConfig

    return TLSConfig(ca_cert=str(ca) if ca else None, verify=True)


def test_tls_with_an_engine_that_has_none() -> None:
    with listener(answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")) as port:
        sentence = told(Access(f"tcp://127.0.0.1:{port}", tls()))
    assert sentence.startswith(f"TLS with the Docker engine at tcp://127.0.0.1:{port} failed: ")


def test_an_engine_whose_certificate_nobody_knows(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True):
            pass

    with listener(serve) as port:
        url = f"tcp://127.0.0.1:{port}"
        sentence = told(Access(url, tls(), connection="gpu")).replace("self signed", "self-signed")  # as OpenSSL 1
    assert sentence == (
        f"TLS with the Docker engine at {url} failed: certificate verify failed: self-signed certificate. "
        "See tls_ca_cert, tls_client_cert and tls_client_key in the extra of connection 'gpu'."
    )


def test_an_engine_that_speaks_tls_only() -> None:
    body = b"Client sent an HTTP request to an HTTPS server.\n"
    answer = b"HTTP/1.0 400 Bad Request\r\n\r\n" + body
    with listener(answering(answer)) as port:
        sentence = told(Access(f"tcp://127.0.0.1:{port}"))
    assert sentence == (
        f"TLS with the Docker engine at tcp://127.0.0.1:{port} failed: Client sent an HTTP request to an HTTPS "
        "server. See the variables DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it does not answer as an engine does"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "it does not answer as an engine does"),
        (b"HTTP/1.0 503 Unavailable\r\n\r\nupstream is away\n", "upstream is away"),
    ],
)
def test_something_else_that_listens(answer: bytes, reason: str) -> None:
    with listener(answering(answer)) as port:
        sentence = told(Access(f"tcp://127.0.0.1:{port}"))
    assert sentence == f"No answer from the Docker engine at tcp://127.0.0.1:{port}: {reason}. {_OWN_REMEDY}"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nonsense://x", "Invalid bind address protocol: nonsense://x"),
        ("tcp://", "Invalid bind address format: tcp://"),
    ],
)
def test_an_address_that_is_none(url: str, reason: str) -> None:
    assert told(Access(url)) == f"No answer from the Docker engine at {url}: {reason}. {_OWN_REMEDY}"


@pytest.mark.parametrize("url", ["tcp://[::1:2375", "tcp://engine:port", "tcp://engine:99999999"])
def test_an_address_that_nobody_can_read(url: str) -> None:
    assert told(Access(url)).startswith(f"the variable DOCKER_HOST is no address: {url}: ")
    whose = "docker_url in the extra of connection 'gpu', or the variable DOCKER_HOST,"
    assert told(Access(url, connection="gpu")).startswith(f"{whose} is no address: {url}: ")


def test_an_address_that_nobody_can_read_may_have_a_password() -> None:
    assert told(Access("tcp://me:hunt/er@engine:2375")) == "the variable DOCKER_HOST is no address."


@pytest.mark.parametrize(
    "url", ["tcp://me:hunter2@engine:2375", "ssh://me:hunter@2@engine", " http://:hunter2@engine:1"]
)
def test_an_address_with_a_password(url: str) -> None:
    sentence = told(Access(url))
    assert "hunter" not in sentence and "hunter" not in repr(Access(url))
    assert re.fullmatch(
        r"the variable DOCKER_HOST is \s*\w+://\*\*\*@engine\S*, with a password in it, which no engine asks for: "
        r"leave it out.",
        sentence,
    )


@pytest.mark.parametrize(
    ("url", "shown", "reason"),
    [
        ("tcp://token@127.0.0.1:{port}", "tcp://***@127.0.0.1:{port}", "connection refused"),
        ("tcp://token@host", "tcp://***@host", "Invalid bind address format: port is required: tcp://***@host"),
        ("nonsense://token@h", "nonsense://***@h", "Invalid bind address protocol: nonsense://***@h"),
    ],
)
def test_who_asks_is_not_shown(url: str, shown: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(BackendError) as error:
        Access(url.format(port=port)).client()
    assert str(error.value) == (
        f"No answer from the Docker engine at {shown.format(port=port)}: {reason}. {_OWN_REMEDY}"
    )
    assert error.value.__suppress_context__, "a traceback would show it"


@pytest.mark.parametrize("url", [SOCKET, "tcp://h:1", "tcp://h:1/a@b", "unix:///run/a@b.sock", "ssh://h"])
def test_an_address_without_a_user_is_shown_as_it_is(url: str) -> None:
    assert Access(url).shown_url == url


class SSHException(Exception):
    """As paramiko's, which the client uses for ssh:// where it is installed."""


def faults() -> list[tuple[Exception, str]]:
    from docker.errors import StreamParseError
    from urllib3.exceptions import ProtocolError

    return [
        (SSHException("Server 'gpu' not found in known_hosts"), "Server 'gpu' not found in known_hosts"),
        (ProtocolError("Connection broken: x", IncompleteRead(b"x")), "it broke off in the middle of an answer"),
        (IncompleteRead(b"x"), "it broke off in the middle of an answer"),
        (StreamParseError(ValueError("x")), "it broke off in the middle of an answer"),
    ]


@pytest.mark.parametrize("number", range(len(faults())))
def test_whatever_the_client_raises_is_told(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", SimpleNamespace(SSHException=SSHException))
    error, reason = faults()[number]
    with pytest.raises(BackendError) as told, Access("ssh://gpu").told():
        raise error
    assert str(told.value) == f"No answer from the Docker engine at ssh://gpu: {reason}. {_OWN_REMEDY}"


def test_our_own_mistakes_are_not_taken_for_the_engines() -> None:
    with pytest.raises(ValueError, match="ours"), Access().told():
        raise ValueError("ours")


def test_an_engine_that_is_silent_has_timed_out() -> None:
    from requests.exceptions import ReadTimeout

    with pytest.raises(BackendError, match="No answer .*: timed out. Start it"), Access().told():
        raise ReadTimeout("UnixHTTPConnectionPool(host='localhost', port=None): Read timed out.")


def test_what_an_engine_refuses_is_not_taken_for_its_absence() -> None:
    from docker.errors import APIError

    with pytest.raises(APIError), Access().told():
        raise APIError("no")


def test_passwords_are_not_shown() -> None:
    assert "hunter2" not in repr(Access(logins={"ghcr.io": Login("me", "hunter2")}))


def test_the_environment_names_no_other_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """`requests` would have it win over that of a connection."""
    import requests

    from nemo_airflow_provider.backends.docker.access import _client_class

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/of/the/system.pem")
    client = _client_class().__new__(_client_class())
    requests.Session.__init__(client)
    client.verify = "/of/the/connection.pem"
    assert client.merge_environment_settings("https://h", {}, None, None, None)["verify"] == "/of/the/connection.pem"
    client.verify = True
    assert client.merge_environment_settings("https://h", {}, None, None, None)["verify"] == "/of/the/system.pem"
