"""How an engine is asked to stop a container, at the border of its API."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.base import Site
from nemo_airflow_provider.backends.docker import control
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.backend import DockerBackend
from nemo_airflow_provider.errors import BackendError
from tests.unit.backends.docker.make import config
from tests.waiting import wait_until

SECONDS = 60.0


class Engine(ThreadingHTTPServer):
    """Answers the request to stop with a status; without one only when it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status: int | None = None
        self.slow_seconds = 0.0
        self.asked: list[str] = []
        self.connections: list[socket.socket] = []
        self.has_ended = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        time.sleep(self.server.slow_seconds)
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


def test_nobody_goes_before_the_engine_is_asked(
    engine: Engine, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may end right after, and its connections with it."""
    monkeypatch.setattr(control, "_REFUSAL_SECONDS", 0.0)
    engine.slow_seconds = 1.0
    asks: list[bool] = []
    join = control._Asking.join
    monkeypatch.setattr(control._Asking, "join", lambda self, s: (asks.append(self.asks.is_set()), join(self, s))[1])
    control.ask_to_stop(access, "c", 30)
    assert asks == [True]
    wait_until(lambda: engine.asked, SECONDS)


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


def test_a_container_that_the_engine_cannot_look_into_has_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its volumes may be gone for good."""
    from docker.errors import APIError

    def refuse(*_: object) -> bool:
        raise APIError("error while mounting volume")

    monkeypatch.setattr(control, "was_asked", refuse)
    backend = DockerBackend(config(), Site(connect=lambda *_: Access()))
    for _ in range(29):
        with pytest.raises(APIError):
            backend._was_asked(cast(Any, None), {"Id": "c"})
    assert backend._was_asked(cast(Any, None), {"Id": "c"}) is False
