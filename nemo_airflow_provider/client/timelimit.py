"""A time limit for a whole exchange.

The HTTP library limits each read for itself, which a server that sends a byte now and then never exceeds.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_OPENED = (".connect_tcp.complete", ".start_tls.complete")


class TimeLimit:
    """Cuts the connections of one HTTP client when an exchange takes too long.

    Which of them the exchange uses is not known here, so all are cut: other threads' requests fail with it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._sockets: list[socket.socket] = []

    @contextlib.contextmanager
    def exchange(self) -> Iterator[Exchange]:
        """Time runs for the length of the block."""
        exchange = Exchange(self)
        timer = threading.Timer(self.seconds, exchange.end)
        timer.daemon = True
        timer.start()
        try:
            yield exchange
        finally:
            timer.cancel()

    def keep(self, opened: socket.socket) -> None:
        """Remember a socket, and forget those that were closed."""
        self._sockets = [known for known in self._sockets if known.fileno() != -1] + [opened]

    def cut(self) -> None:
        """Make every read and write return at once."""
        for opened in self._sockets:
            # It has been closed meanwhile, here or there.
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


class Exchange:
    """One request and its answer; `is_over` when the time for both is."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self.is_over = False

    def end(self) -> None:
        """Time is over."""
        self.is_over = True
        self._limit.cut()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The `trace` extension of the request (https://www.python-httpx.org/advanced/extensions/)."""
        if not event.endswith(_OPENED):
            return
        self._limit.keep(info["return_value"].get_extra_info("socket"))
        if self.is_over:
            self._limit.cut()
