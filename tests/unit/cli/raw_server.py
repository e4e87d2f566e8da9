"""A TCP server that speaks HTTP badly: slowly, without end, or not at all."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

Talk = Callable[[], Iterator[bytes]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class RawServer:
    """Says whatever a script says, on each connection after a request has come; counts connections."""

    def __init__(self, *talks: Talk) -> None:
        self._talks = list(talks)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self.hung_up = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            talk = self._talks.pop(0) if len(self._talks) > 1 else self._talks[0]
            thread = threading.Thread(target=self._serve, args=(connection, talk))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket, talk: Talk) -> None:
        connection.settimeout(10)
        with connection:
            connection.recv(65536)
            try:
                for piece in talk():
                    if self._over.is_set():
                        return
                    connection.sendall(piece)
            except OSError:
                self.hung_up.set()

    @contextlib.contextmanager
    def running(self) -> Iterator[RawServer]:
        acceptor = threading.Thread(target=self._accept)
        acceptor.start()
        try:
            yield self
        finally:
            self._over.set()
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for thread in (acceptor, *self._threads):
                thread.join(timeout=15)
                assert not thread.is_alive()


@contextlib.contextmanager
def talking(*talks: Callable[[RawServer], Iterator[bytes]]) -> Iterator[RawServer]:
    server = RawServer(*((lambda talk=talk: talk(server)) for talk in talks))  # type: ignore[misc]
    with server.running():
        yield server


def drip(server: RawServer, *first: bytes, piece: bytes = b"x") -> Iterator[bytes]:
    """`piece` every 50 ms: far below any time limit of a single read."""
    yield from first
    while True:
        yield piece
        server.pause(0.05)


def dripped_head(server: RawServer) -> Iterator[bytes]:
    return drip(server, b"HTTP/1.1 200 OK\r\nx-slow: ")


def dripped_body(server: RawServer) -> Iterator[bytes]:
    return drip(server, HEAD, b"content-length: 10000\r\n\r\n")


def dripped_body_without_length(server: RawServer) -> Iterator[bytes]:
    return drip(server, HEAD, b"\r\n", piece=b" ")


def ever_more_patience(server: RawServer) -> Iterator[bytes]:
    return drip(server, piece=b"HTTP/1.1 100 Continue\r\n\r\n")


def dripped_error(server: RawServer) -> Iterator[bytes]:
    return drip(server, b"HTTP/1.1 500 Oh\r\ncontent-length: 10000\r\n\r\n")


def dripped_redirect(server: RawServer) -> Iterator[bytes]:
    return drip(server, b"HTTP/1.1 302 Found\r\nlocation: /x\r\nx-slow: ")


def silence(server: RawServer) -> Iterator[bytes]:
    server.pause(30)
    yield from ()


def valid_start_then_silence(server: RawServer) -> Iterator[bytes]:
    """The body has no length, so its end is that of the connection: half of it must not pass for the whole."""
    yield HEAD + b"\r\n{}"
    server.pause(30)


def endless(server: RawServer) -> Iterator[bytes]:
    return itertools.chain([HEAD, b"\r\n["], itertools.repeat(b"[]," * 20_000))
