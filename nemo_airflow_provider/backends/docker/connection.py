"""One answer of the engine that is still being read: to leave it while another thread waits for more of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def hang_up(answer: Any) -> None:
    """Close the connection that an answer comes by; whoever reads it comes to its end. Twice is harmless.

    Over SSH that is not possible: the connection goes with what comes by it next, or with the process.

    :param answer: a `requests` response, read as a stream
    """
    from docker.errors import DockerException
    from docker.types.daemon import CancellableStream

    # The client digs for the socket in a way of its own for each transport; an answer that has ended has none.
    with suppress(OSError, DockerException, AttributeError, NameError):
        CancellableStream(iter(()), answer).close()
