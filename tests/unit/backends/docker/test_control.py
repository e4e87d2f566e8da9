"""How an engine is asked to stop a container, at the border of its API."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nemo_airflow_provider.backends.docker import control
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.errors import BackendError
from tests.waiting import wait_until

SECONDS = 60.0


class Engine(ThreadingHTTPServer):
    """Answers the request to stop with a status; without one only when it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status: int | None = None
        self.asked: list[str] = []
        self.connections: list[socket.socket] = []
        self.has_ended = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        self._answer(200, b'{"ApiVersion": "1.41"}')

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        self.server.connections.append(self.connection)
        if self.server.status is None:
            self.server.has_ended.wait(SECONDS)
        self._answer(self.server.status or 204, b'{"message": "cannot stop it"}' if self.server.status else b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.has_ended.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def access(engine: Engine) -> Access:
    return Access(f"tcp://127.0.0.1:{engine.server_port}")


def asking() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "nemo-docker-stop"]


def test_the_engine_is_listened_to_until_the_container_has_ended(engine: Engine, access: Access) -> None:
    """Some engines kill at once what nobody waits for any more."""
    control.ask_to_stop(access, "c", 30)
    wait_until(lambda: engine.connections, SECONDS)
    assert engine.asked == ["/v1.41/containers/c/stop?t=30"]
    # A connection that the client has closed can be read: it gives its end.
    assert select.select(engine.connections, [], [], 0.0)[0] == []
    engine.has_ended.set()
    wait_until(lambda: not asking(), SECONDS)


@pytest.mark.parametrize("status", [304, 404])
def test_what_has_ended_is_stopped(engine: Engine, access: Access, status: int) -> None:
    engine.status = status
    control.ask_to_stop(access, "c", 30)
    wait_until(lambda: not asking(), SECONDS)


def test_an_engine_that_says_no(engine: Engine, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_REFUSAL_SECONDS", SECONDS)
    engine.status = 500
    with pytest.raises(BackendError, match="The engine does not stop c: cannot stop it"):
        control.ask_to_stop(access, "c", 30)


def test_an_engine_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_REFUSAL_SECONDS", SECONDS)
    with pytest.raises(BackendError, match="No answer"):
        control.ask_to_stop(Access("tcp://127.0.0.1:1"), "c", 30)
