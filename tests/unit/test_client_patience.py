"""Servers that drip, hang, or never stop: every request ends in time, and in bounded memory."""

from __future__ import annotations

import gzip
import itertools
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from nemo_airflow_provider.client import ApiError, BadAnswer, ClientError, TimedOut
from nemo_airflow_provider.client.transport import Transport
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
        assert PATIENCE_SECONDS * 0.9 < taken < PATIENCE_SECONDS + 5
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


def test_no_thread_stays_behind() -> None:
    def quick(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n[]"

    with talking(quick) as server:
        before = threading.active_count()
        with Transport(server.url) as transport:
            transport.request("GET", "/")
        deadline = time.monotonic() + 10
        while threading.active_count() > before:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def endless_error(server: RawServer) -> Iterator[bytes]:
    return itertools.chain([b"HTTP/1.1 400 No\r\n\r\n["], itertools.repeat(b"x" * 60_000))


def announced(server: RawServer) -> Iterator[bytes]:
    return iter([HEAD + b"content-length: 99999999999\r\n\r\n["])


def compressed(server: RawServer) -> Iterator[bytes]:
    content = gzip.compress(b" " * 200_000_000, compresslevel=1)
    return iter([HEAD + f"content-encoding: gzip\r\ncontent-length: {len(content)}\r\n\r\n".encode(), content])


@pytest.mark.parametrize("talk", [endless, endless_error, announced, compressed])
def test_an_answer_without_end_is_refused(talk: Callable[[RawServer], Iterator[bytes]]) -> None:
    with talking(talk) as server, Transport(server.url) as transport:
        tracemalloc.start()
        try:
            with pytest.raises(BadAnswer, match=r"^the answer is larger than 64 MiB; ask for fewer rows or lines"):
                transport.request("GET", "/")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # The compressed one is in this process too, on the server's side.
        assert peak < 400_000_000
        assert server.connections == 1


def test_a_redirect_is_not_read() -> None:
    def elsewhere(server: RawServer) -> Iterator[bytes]:
        head = b"HTTP/1.1 302 Found\r\nlocation: /there\r\n\r\n"
        return itertools.chain([head], itertools.repeat(b"x" * 60_000))

    def there(server: RawServer) -> Iterator[bytes]:
        yield HEAD + b"content-length: 2\r\n\r\n[]"

    with talking(elsewhere, there) as server, Transport(server.url) as transport:
        assert transport.request("GET", "/") == []
        assert server.hung_up.wait(10)


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
        yield b"HTTP/1.1 " + status + f"\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

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
