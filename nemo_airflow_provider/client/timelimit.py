"""A time limit for a whole exchange.

The HTTP library limits each read for itself, which a server that sends a byte now and then never exceeds.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

_OPENED = (".connect_tcp.complete", ".start_tls.complete")
#: What a slow link carries. A page of a log may have 8 MiB, which no fixed limit suits.
_LEAST_BYTES_PER_SECOND = 16 * 1024


class TimeLimit:
    """Cuts the connections of one HTTP client when an exchange takes too long.

    Which of them the exchange uses is not known here, so all are cut: other threads' requests fail with it.

    :param seconds: for an exchange, besides what its bytes take on a slow link
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._latest = float("inf")
        self._sockets: list[socket.socket] = []

    @property
    def seconds_left(self) -> float:
        """Until the end of the innermost `within`; infinite outside of one."""
        return self._latest - time.monotonic()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """No exchange of the block goes on after that, whatever arrives."""
        before = self._latest
        self._latest = min(before, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._latest = before

    @contextlib.contextmanager
    def exchange(self, *, sent_bytes: int = 0) -> Iterator[Exchange]:
        """Time runs for the length of the block.

        :param sent_bytes: size of the request
        """
        exchange = Exchange(self, self.seconds + sent_bytes / _LEAST_BYTES_PER_SECOND, self._latest)
        threading.Thread(target=exchange.watch, daemon=True).start()
        try:
            yield exchange
        finally:
            exchange.finish()

    def keep(self, opened: socket.socket) -> None:
        """Remember a socket, and forget those that were closed."""
        self._sockets = [known for known in self._sockets if known.fileno() != -1] + [opened]

    def cut(self) -> None:
        """Make every read and write return at once."""
        for opened in self._sockets:
            # It has been closed meanwhile, here or there.
            with contextlib.suppress(OSError):
                # Not the method of SSLSocket, which takes the encryption away first: what another thread
                # sends at that moment would go in the clear.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


class Exchange:
    """One request and its answer; `is_over` when the time for both is.

    :param seconds: how long it may take, if nothing arrives
    :param latest: on the monotonic clock, when it ends even if something does
    """

    def __init__(self, limit: TimeLimit, seconds: float, latest: float) -> None:
        self._limit = limit
        self._began = time.monotonic()
        self._latest = latest
        self._ends = min(self._began + seconds, latest)
        self._changed = threading.Condition()
        self._finished = False
        self.is_over = False

    @property
    def allowed_seconds(self) -> float:
        """How long it may take, after what has arrived."""
        return self._ends - self._began

    def received(self, size: int) -> None:
        """So many bytes have arrived: they give time for the next ones."""
        self._ends = min(self._ends + size / _LEAST_BYTES_PER_SECOND, self._latest)

    def watch(self) -> None:
        """Wait for the end of the exchange or of its time; in a thread of its own."""
        with self._changed:
            while not self._finished and (left := self._ends - time.monotonic()) > 0:
                self._changed.wait(left)
            if not self._finished:
                self.is_over = True
                self._limit.cut()

    def finish(self) -> None:
        """Nothing is cut from now on."""
        with self._changed:
            self._finished = True
            self._changed.notify()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The `trace` extension of the request (https://www.python-httpx.org/advanced/extensions/)."""
        if not event.endswith(_OPENED):
            return
        self._limit.keep(info["return_value"].get_extra_info("socket"))
        if self.is_over:
            self._limit.cut()
