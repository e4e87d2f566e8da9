"""Reading a container's output from an engine that breaks off, refuses, or says nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

import pytest

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.backends.docker import access, logs
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.frames import Position, Track
from nemo_airflow_provider.errors import OutputLost
from tests.unit.backends.docker.test_frames import BASE, NANO, engine_output, framed, stamp
from tests.waiting import wait_until

SECONDS = 60.0


class Answers(Protocol):
    """How an engine answers for a container's output.

    :param follow: whether what is still to come is wanted
    """

    def __call__(self, handler: BaseHTTPRequestHandler, *, follow: bool) -> None: ...


@pytest.fixture
def engine() -> Iterator[Callable[[Answers], Access]]:
    """Starts an engine over TCP, and gives the way to it."""
    servers = []

    def start(answers: Answers) -> Access:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("/version"):
                    body = b'{"ApiVersion": "1.41"}'
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                else:
                    answers(self, follow="follow=1" in self.path)

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return Access(f"tcp://127.0.0.1:{server.server_port}")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/vnd.docker.raw-stream" if status == 200 else "text/plain")
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def readers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "nemo-docker-logs"]


@pytest.mark.parametrize("read_before", [True, False])
def test_another_connection_gives_what_follows_the_position(read_before: bool) -> None:
    """Both with what the reader knows from the connection before, and with the stored position alone."""
    records = [logs.Frames().take(framed(1, stamp(BASE + n * NANO // 2) + b" %d\n" % n)) for n in range(20)]
    frames = [frame for each in records for frame in each]
    track = Track(Position())
    first = list(logs._chunks(iter([engine_output(frames[:12]), None]), "t", track, Position()))
    assert first[-1] is None
    last = first[-2]
    assert isinstance(last, Chunk)
    position = Position.parse(last.end)
    assert position.known > 1
    again = iter([engine_output(frames, position.since)])
    rest = list(logs._chunks(again, "t", track if read_before else Track(position), position))
    assert [chunk.data for chunk in rest if chunk] == [b"%d\n" % n for n in range(12, 20)]


def test_an_engine_that_ends_its_answers_is_not_asked_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Follower:
        def __init__(self, *_: object, follow: bool) -> None:
            asked.append(follow)

        def blocks(self, *_: object) -> Iterator[bytes | None]:
            return iter(())

        def close(self) -> None: ...

    class Stop(threading.Event):
        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            return False

    monkeypatch.setattr(logs, "_Follower", Follower)
    stop, over = Stop(), iter([False, False, False, True])
    assert list(logs.read(Access(), "c", "t", None, stop, lambda: next(over))) == [None, None]
    assert (asked, stop.waits) == ([True, True, True, False], 2)


LINES = engine_output([frame for n in range(3) for frame in logs.Frames().take(framed(1, stamp(BASE) + b" %d\n" % n))])


def text(chunks: Iterator[Chunk | None]) -> bytes:
    return b"".join(chunk.data for chunk in chunks if chunk is not None)


def test_a_connection_that_died_in_silence(
    engine: Callable[[Answers], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that drops what it had let through: the rest is asked for once the container is over."""
    monkeypatch.setattr(logs, "_SIGN_OF_LIFE_SECONDS", 0.01)
    done, looks = threading.Event(), iter([False, False, True, True])

    def answer(handler: BaseHTTPRequestHandler, *, follow: bool) -> None:
        send(handler, LINES[: len(LINES) // 3] if follow else LINES)
        if follow:
            done.wait(SECONDS)

    found = text(logs.read(engine(answer), "c", "t", None, threading.Event(), lambda: next(looks)))
    assert found == b"0\n1\n2\n"
    # Nobody waits on the dead connection any more, though the engine has not closed it.
    wait_until(lambda: not readers(), SECONDS)
    done.set()


@pytest.mark.parametrize("words", ["status", "frame"])
def test_output_that_the_engine_never_hands_out(
    engine: Callable[[Answers], Access], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(logs, "_RETRY_SECONDS", 0.001)
    asked: list[bool] = []

    def answer(handler: BaseHTTPRequestHandler, *, follow: bool) -> None:
        asked.append(follow)
        if words == "status":
            send(handler, b"configured logging driver does not support reading", 500)
        else:
            send(handler, LINES[: len(LINES) // 3] + framed(3, b"Error grabbing logs: invalid character"))

    looks = iter([False] * 5)
    read = logs.read(engine(answer), "c", "t", None, threading.Event(), lambda: next(looks, True))
    found: list[bytes] = []
    with pytest.raises(OutputLost, match="does not support reading" if words == "status" else "invalid character"):
        found += (chunk.data for chunk in read if chunk is not None)
    assert asked == [True] * 5 + [False] * logs._MOST_REFUSALS


def test_an_engine_that_refuses_for_a_while(
    engine: Callable[[Answers], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_RETRY_SECONDS", 0.001)
    refusals = iter(range(logs._MOST_REFUSALS - 1))

    def answer(handler: BaseHTTPRequestHandler, *, follow: bool) -> None:
        if next(refusals, None) is None:
            send(handler, LINES)
        else:
            send(handler, b"not yet", 503)

    assert text(logs.read(engine(answer), "c", "t", None, threading.Event(), lambda: True)) == b"0\n1\n2\n"


def test_an_engine_that_reads_for_long_before_it_hands_anything_out(
    engine: Callable[[Answers], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes through a log of gigabytes to where it is asked from."""
    monkeypatch.setattr(access, "_SECONDS", 0.2)
    monkeypatch.setattr(logs, "_SIGN_OF_LIFE_SECONDS", 0.01)
    asked: list[bool] = []

    def answer(handler: BaseHTTPRequestHandler, *, follow: bool) -> None:
        asked.append(follow)
        send(handler, b"")
        time.sleep(1)
        handler.wfile.write(LINES)

    assert text(logs.read(engine(answer), "c", "t", None, threading.Event(), lambda: True)) == b"0\n1\n2\n"
    assert asked == [False]


def test_the_kernel_looks_after_a_connection_on_which_nothing_comes(engine: Callable[[Answers], Access]) -> None:
    client = engine(lambda *_, **__: None).client()
    with client.get(f"{client.base_url}/version", stream=True) as answer:
        connection = answer.raw._fp.fp.raw._sock
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
