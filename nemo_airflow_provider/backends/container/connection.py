"""One answer of an engine that is still being read: to leave it while another thread waits for more of it."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


def hang_up(answer: Any) -> None:
    """Close the connection that an answer comes by; whoever reads it comes to its end. Twice is harmless.

    Over SSH there is no socket: the connection goes with what comes by it next.

    :param answer: a `urllib3` response, read as a stream
    """
    reader = getattr(getattr(answer, "_fp", None), "fp", None)
    connection = getattr(getattr(reader, "raw", None), "_sock", None)
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
