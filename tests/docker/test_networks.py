"""Networks of a step, and the way from it to this host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import StartError
from tests.docker.dock import Dock


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from the host\n")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    """Of a listener on every address of this host."""
    with ThreadingHTTPServer(("0.0.0.0", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def network(dock: Dock) -> Iterator[str]:
    name = f"nemo-test-{token_hex(4)}"
    made = dock.client.create_network(name, driver="bridge")["Id"]
    try:
        yield name
    finally:
        dock.clear()
        dock.client.remove_network(made)


ASK = 'echo "$NHX_BASE_URL"; wget -q -O- "$NHX_BASE_URL/x"'


def reaches(dock: Dock, network: str, host: str, port: int) -> None:
    backend = dock.backend(networking={"job_container_network": network})
    urls = {"NHX_BASE_URL": f"http://localhost:{port}"}
    written = dock.output(backend, dock.workload(ASK, platform=urls))
    assert written == f"http://{host}:{port}\nhello from the host\n"


def test_the_hosts_network_needs_no_other_name(dock: Dock, port: int) -> None:
    reaches(dock, "host", "localhost", port)


def test_the_host_is_reached_from_a_bridge(dock: Dock, port: int) -> None:
    reaches(dock, "bridge", "host.docker.internal", port)


def test_the_host_is_reached_from_a_network_of_ones_own(dock: Dock, port: int) -> None:
    with network(dock) as name:
        reaches(dock, name, "host.docker.internal", port)
        assert list(dock.inspect()["NetworkSettings"]["Networks"]) == [name]


def test_without_a_network_there_is_none(dock: Dock) -> None:
    backend = dock.backend(networking={"job_container_network": "none"})
    assert dock.output(backend, dock.workload("ls /sys/class/net")).split() == ["lo"]


def test_a_network_that_is_not_there_is_told_and_leaves_nothing(dock: Dock) -> None:
    backend = dock.backend(networking={"job_container_network": "nemo-no-such-network"})
    with pytest.raises(StartError, match="Failed to start container: .*network nemo-no-such-network not found"):
        backend.submit(dock.workload("true"))
    assert backend.observe(dock.key()).phase is Phase.ABSENT
    assert (dock.containers(), dock.volumes()) == ([], [])
