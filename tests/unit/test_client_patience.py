"""Servers that drip, hang, or never stop: every request ends in time, and in bounded memory."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nemo_airflow_provider.client import (
    ApiError,
    BadAnswer,
    ClientError,
    JobsClient,
    TimedOut,
    Watch,
    WatchTimeout,
    WatchWarning,
    WholeLog,
)
from nemo_airflow_provider.client.timelimit import TimeLimit
from nemo_airflow_provider.client.transport import Transport
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.cli.raw_server import (
    HEAD,
    RawServer,
    dripped_body,
    dripped_body_without_length,
    dripped_error,
    dripped_head,
    dripped_redirect,
    endless,
    ever_more_patience,
    silence,
    talking,
    valid_start_then_silence,
)
from tests.waiting import wait_until

PATIENCE_SECONDS = 0.3

SLOW = [
    dripped_head,
    dripped_body,
    dripped_body_without_length,
    ever_more_patience,
    dripped_error,
    dripped_redirect,
    silence,
    valid_start_then_silence,
]


@pytest.mark.parametrize("talk", SLOW)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_slow_answer_ends_at_the_time_limit(talk: Callable[[RawServer], Iterator[bytes]], method: str) -> None:
    waits: list[float] = []
    with talking(talk) as server:
        with Transport(server.url, timeout_seconds=PATIENCE_SECONDS, sleep=waits.append) as transport:
            began = time.monotonic()
            with pytest.raises(TimedOut, match=r"^the whole answer did not come within 0\.3 seconds$") as caught:
                transport.request(method, "/jobs")
            taken = time.monotonic() - began
        assert PATIENCE_SECONDS * 0.9 < taken < 25
        assert (caught.value.sent, caught.value.url) == (True, f"{server.url}/jobs")
        # Who has waited that long does not begin again.
        assert (server.connections, waits) == (1, [])


def test_a_connection_that_is_used_again_has_a_limit_too() -> None:
    def good_then_slow(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n{}"
        server.pause(0.2)
        yield from dripped_head(server)

    with talking(good_then_slow) as server, Transport(server.url, timeout_seconds=PATIENCE_SECONDS) as transport:
        assert transport.request("GET", "/") == {}
        with pytest.raises(TimedOut):
            transport.request("GET", "/")
        assert server.connections == 1


def test_a_quick_answer_after_a_slow_one() -> None:
    def quick(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n[]"

    with talking(dripped_body, quick) as server:
        with Transport(server.url, timeout_seconds=PATIENCE_SECONDS) as transport:
            with pytest.raises(TimedOut):
                transport.request("GET", "/")
            assert transport.request("GET", "/") == []
        assert server.connections == 2


def steady(server: RawServer) -> Iterator[bytes]:
    """A body without length, a piece every 50 ms: far more than the least speed that is waited for."""
    yield HEAD + b"\r\n["
    while True:
        yield b" " * 60_000
        server.pause(0.05)


def test_an_answer_that_comes_slowly_but_surely_has_its_time() -> None:
    size = 10 * 60_000

    def slowly(server: RawServer) -> Iterator[bytes]:
        yield HEAD + f"content-length: {size + 2}\r\n\r\n[".encode()
        for _ in range(10):
            yield b" " * 60_000
            server.pause(PATIENCE_SECONDS / 3)
        yield b"]"

    with talking(slowly) as server, Transport(server.url, timeout_seconds=PATIENCE_SECONDS) as transport:
        assert transport.request("GET", "/") == []


def test_an_answer_that_stops_is_not_waited_for_as_long_as_a_slow_one() -> None:
    def stops(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"\r\n[" + b" " * 300_000
        server.pause(30)

    with talking(stops) as server, Transport(server.url, timeout_seconds=PATIENCE_SECONDS) as transport:
        began = time.monotonic()
        with pytest.raises(TimedOut, match=r"^the answer stopped: nothing more came for 0\.3 seconds$") as caught:
            transport.request("GET", "/")
        assert time.monotonic() - began < 25
        assert caught.value.sent


@pytest.mark.parametrize("length", ["9" * 19, "9" * 5000, "-1", "1e3", "x"])
def test_a_length_that_is_none(length: str) -> None:
    def lying(server: RawServer) -> Iterator[bytes]:
        yield HEAD + f"content-length: {length}\r\n\r\n[]".encode()

    with talking(lying) as server:
        transport = Transport(server.url, sleep=lambda seconds: None)
        with transport, pytest.raises(ClientError):
            transport.request("GET", "/")


def test_a_large_request_has_time_to_go_out() -> None:
    with TimeLimit(0.05).exchange(sent_bytes=1_000_000) as exchange:
        threading.Event().wait(0.2)
        assert not exchange.is_over
        assert 60 < exchange.allowed_seconds < 62


@pytest.mark.parametrize("talk", [dripped_head, dripped_body, steady, silence])
def test_a_block_ends_in_time_whatever_arrives(talk: Callable[[RawServer], Iterator[bytes]]) -> None:
    with talking(talk) as server, JobsClient(server.url) as jobs:
        began = time.monotonic()
        with jobs.within(PATIENCE_SECONDS), pytest.raises(TimedOut, match=r" within 0\.3 seconds$"):
            jobs.get_job("x")
        assert time.monotonic() - began < 25
        assert server.connections == 1


def test_a_block_does_not_wait_for_a_try_beyond_it() -> None:
    def busy(server: RawServer) -> Iterator[bytes]:
        yield b"HTTP/1.1 503 No\r\nretry-after: 50\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"

    waits: list[float] = []
    with talking(busy) as server, Transport(server.url, sleep=waits.append) as transport:
        with transport.within(10), pytest.raises(ApiError):
            transport.request("GET", "/")
        assert (waits, server.connections) == ([], 1)
        with transport.within(0), pytest.raises(TimedOut, match="^no time is left for the request$"):
            transport.request("GET", "/")
        assert server.connections == 1
        with pytest.raises(ApiError):
            transport.request("GET", "/")
        assert waits == [50, 50]


def test_a_block_ends_in_time_where_nobody_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        address = deaf.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        began = time.monotonic()
        transport = Transport(f"http://127.0.0.1:{address[1]}")
        with transport, transport.within(PATIENCE_SECONDS), pytest.raises(TimedOut):
            transport.request("GET", "/")
        for filler in fillers:
            filler.close()
    assert time.monotonic() - began < 25


@pytest.mark.parametrize("talk", [dripped_head, steady, silence])
@pytest.mark.parametrize("looks_at_lines", [False, True])
def test_a_watch_keeps_its_timeout_in_the_middle_of_a_look(
    talk: Callable[[RawServer], Iterator[bytes]], looks_at_lines: bool
) -> None:
    def active(server: RawServer) -> Iterator[bytes]:
        body = b'{"name": "x", "status": "active"}'
        yield HEAD + f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body

    talks = (active, talk) if looks_at_lines else (talk,)
    with talking(*talks) as server, JobsClient(server.url) as jobs:
        lines = WholeLog(jobs, "x") if looks_at_lines else None
        began = time.monotonic()
        seen: list[object] = []
        with pytest.raises(WatchTimeout):
            seen.extend(Watch(jobs, "x", lines=lines, timeout_seconds=2).events())
        assert not any(isinstance(event, WatchWarning) for event in seen), "our own time is over, that is all"
        assert time.monotonic() - began < 25
        assert server.connections == len(talks)


def test_a_cut_takes_no_encryption_away() -> None:
    """`SSLSocket.shutdown` would: what another thread sends at that moment would go in the clear."""
    here, there = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with there, context.wrap_socket(here, do_handshake_on_connect=False) as opened:
        limit = TimeLimit(60)
        limit.keep(opened)
        limit.cut()
        assert there.recv(1) == b""
        # It still has a layer of TLS to fail in.
        with pytest.raises(OSError, match="."):
            opened.do_handshake()


def test_no_thread_stays_behind() -> None:
    def quick(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n[]"

    with talking(quick) as server:
        before = threading.active_count()
        with Transport(server.url) as transport:
            transport.request("GET", "/")
        wait_until(lambda: threading.active_count() <= before)


def endless_error(server: RawServer) -> Iterator[bytes]:
    return itertools.chain([b"HTTP/1.1 400 No\r\n\r\n["], itertools.repeat(b"x" * 60_000))


def announced(server: RawServer) -> Iterator[bytes]:
    return iter([HEAD + b"content-length: 99999999999\r\n\r\n["])


def coded(content: bytes, coding: str) -> list[bytes]:
    head = HEAD + f"content-encoding: {coding}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n".encode()
    return [head, content]


@contextmanager
def allocating_less_than(most_bytes: int) -> Iterator[None]:
    """At no moment of the block Python's own memory is larger."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


GZIPPED = gzip.compress(b"[]")
BOMB = gzip.compress(b" " * 200_000_000, compresslevel=9, mtime=0)


def compressed(server: RawServer) -> Iterator[bytes]:
    return iter(coded(BOMB, "gzip"))


def unnamed(server: RawServer) -> Iterator[bytes]:
    """The head of a gzip file with a file name that never ends: nothing comes out of it."""
    head = HEAD + b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + bytes(6)
    return itertools.chain([head], itertools.repeat(b"x" * 60_000))


def empty_blocks(server: RawServer) -> Iterator[bytes]:
    """Compressed blocks of no length, for ever."""
    head = HEAD + b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08\x00" + bytes(6)
    return itertools.chain([head], itertools.repeat(b"\x00\x00\x00\xff\xff" * 12_000))


@pytest.mark.parametrize("talk", [endless, endless_error, announced, compressed, unnamed, empty_blocks])
def test_an_answer_without_end_is_refused(talk: Callable[[RawServer], Iterator[bytes]]) -> None:
    with talking(talk) as server, Transport(server.url) as transport:
        with (
            allocating_less_than(250_000_000),
            pytest.raises(BadAnswer, match=r"^the answer is larger than 64 MiB; ask for fewer rows or lines"),
        ):
            transport.request("GET", "/")
        assert server.connections == 1


@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip,identity", "deflate", "br", "zstd", "x"])
def test_a_coding_that_was_not_asked_for_is_refused(coding: str) -> None:
    content = gzip.compress(BOMB)
    assert len(content) < 2000
    with (
        talking(lambda server: iter(coded(content, coding))) as server,
        Transport(server.url) as transport,
        allocating_less_than(20_000_000),
        pytest.raises(BadAnswer, match=rf"^the answer is coded as '{coding}', which was not asked for"),
    ):
        transport.request("GET", "/")


def test_two_headers_of_codings_are_two_codings() -> None:
    def twice(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-encoding: gzip\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(BOMB)

    refused = pytest.raises(BadAnswer, match="^the answer is coded as 'gzip, gzip'")
    with talking(twice) as server, Transport(server.url) as transport, refused:
        transport.request("GET", "/")


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity", ""])
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_compressed_answer_is_read(coding: str, pieces: int) -> None:
    text = b'["' + b"abc" * 100_000 + b'"]'
    content = gzip.compress(text) if "gzip" in coding.lower() else text

    def talk(server: RawServer) -> Iterator[bytes]:
        head, body = coded(content, coding)
        yield head
        step = -(-len(body) // pieces)
        for start in range(0, len(body), step):
            yield body[start : start + step]

    with talking(talk) as server, Transport(server.url) as transport:
        assert transport.request("GET", "/") == ["abc" * 100_000]


def test_compression_is_asked_for() -> None:
    with FakeServer().running() as server:
        server.on("GET", "/", Answer([]))
        with Transport(server.url) as transport:
            transport.request("GET", "/")
        assert server.seen[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    "content",
    [b"[]", GZIPPED[:-3], GZIPPED + b"[]", GZIPPED * 2, zlib.compress(b"[]")],
    ids=["plain", "cut", "more behind it", "twice", "deflated"],
)
def test_a_damaged_compressed_answer(content: bytes) -> None:
    refused = pytest.raises(BadAnswer, match="^the compressed answer is damaged$")
    with talking(lambda server: iter(coded(content, "gzip"))) as server, Transport(server.url) as transport, refused:
        transport.request("GET", "/")


def test_no_content_needs_no_coding() -> None:
    def empty(server: RawServer) -> Iterator[bytes]:
        yield b"HTTP/1.1 204 No Content\r\nconnection: close\r\ncontent-encoding: gzip\r\n\r\n"

    with talking(empty) as server, Transport(server.url) as transport:
        assert transport.request("DELETE", "/") is None


def test_a_redirect_is_not_read() -> None:
    def elsewhere(server: RawServer) -> Iterator[bytes]:
        head = b"HTTP/1.1 302 Found\r\nlocation: /there\r\n\r\n"
        return itertools.chain([head], itertools.repeat(b"x" * 60_000))

    def there(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n[]"

    with talking(elsewhere, there) as server, Transport(server.url) as transport:
        assert transport.request("GET", "/") == []
        assert server.hung_up.wait(60)


def test_redirects_in_a_circle() -> None:
    def again(server: RawServer) -> Iterator[bytes]:
        yield b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

    with talking(again) as server:
        with Transport(server.url) as transport, pytest.raises(BadAnswer, match="redirects"):
            transport.request("GET", "/")
        assert server.connections < 30


@pytest.mark.parametrize("status", [b"200 OK", b"500 Oh"])
def test_an_answer_that_is_nested_too_deeply(status: bytes) -> None:
    def deep(server: RawServer) -> Iterator[bytes]:
        body = b"[" * 500_000
        yield b"HTTP/1.1 " + status + f"\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    with talking(deep) as server:
        transport = Transport(server.url, sleep=lambda seconds: None)
        with transport, pytest.raises((BadAnswer, ApiError)):
            transport.request("GET", "/")


@pytest.mark.parametrize("token", ["secret\r", "secret\n", "sécret", "secret\x00", "\udcffsecret", "se\u20accret"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    with pytest.raises(ClientError, match=r"^the token has a character that cannot be sent") as caught:
        Transport("http://localhost:1", token=token)
    assert "cret" not in str(caught.value)
    assert caught.value.exit_code == 2
