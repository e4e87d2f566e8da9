"""One answer of the API with a container's output, received in a thread of its own.

The kubelet does not tell stdout and stderr apart: all of it is called stdout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.backends.base import Chunk, Signal
from nemo_airflow_provider.backends.container.arrivals import Arrivals
from nemo_airflow_provider.backends.container.connection import hang_up
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.lines import Lines, Piece, Position
from nemo_airflow_provider.backends.kube.resume import unknown
from nemo_airflow_provider.errors import BackendError

BLOCK_BYTES = 1 << 16
SIGN_OF_LIFE_SECONDS = 0.9
#: Between two looks, while nothing comes, whether anything is still to come; in signs of life.
_LOOK_SIGNS = 10
#: The kubelet reads all that it has, up to where it is asked from, before it says anything.
_SEARCH_SECONDS = 600
#: What the kubelet says at the end of what it followed where the container was removed.
_REMOVED = "code = NotFound"


class Ended(BackendError):
    """An answer has ended in good order, as it does when the container that it follows ends.

    :param left: what came without a newline at its end; good if nothing more can be had
    """

    def __init__(self, message: str, left: list[Chunk]) -> None:
        super().__init__(message)
        self.left = left


class Answer:
    """What the API says to one question for what follows a position.

    :param follow: whether what is still to come is wanted; then it never ends but by an error
    """

    def __init__(self, cluster: Cluster, pod: str, container: str, known: Position, *, follow: bool) -> None:
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._known = known
        self._follow = follow
        #: Whether it has brought anything that was not known.
        self.is_new = False
        self._has_ended = False

    def chunks(self, task: str, stop: Signal, is_over: Callable[[], bool]) -> Iterator[Chunk | None]:
        """What was not known; None when nothing comes for a while.

        :raises BackendError: that was not all
        """
        left: list[Chunk] = []
        start = self._known.dump()
        query = {
            "container": self._container,
            "timestamps": "true",
            "follow": "true" if self._follow else None,
            "sinceTime": _rfc3339(self._known.since) if self._known.since else None,
        }
        silence = None if self._follow else _SEARCH_SECONDS
        with closing(_Follower(self._cluster, self._pod, query, silence)) as follower:
            for step in unknown(self._known, self._pieces(follower.blocks(stop), stop, is_over)):
                if step is None:
                    yield None
                    continue
                end = step.end.dump()
                chunk = Chunk(task, "stdout", step.piece.nanos // 1000, step.piece.data, start, end)
                start = end
                if self._has_ended:
                    left.append(chunk)
                    continue
                self.is_new = True
                yield chunk
        if self._has_ended:
            raise Ended(f"The output of {self._pod} has ended, or broke off.", left)

    def _pieces(
        self, blocks: Iterator[bytes | None], stop: Signal, is_over: Callable[[], bool]
    ) -> Iterator[Piece | None]:
        """All that comes, cut.

        A network that was cut says nothing: where nothing comes of a container that is over, the connection is dead.
        """
        lines, silent = Lines(), 0
        for block in blocks:
            if block:
                silent = 0
                yield from lines.take(block)
                continue
            yield None
            silent += 1
            if self._follow and silent % _LOOK_SIGNS == 0 and is_over():
                raise BackendError(f"Nothing comes of {self._pod} any more.")
        if stop.is_set():
            raise BackendError(f"The output of {self._pod} is not wanted any more.")
        complaint = lines.complaint
        self._has_ended = self._follow and (not complaint or _REMOVED in complaint)
        if complaint and not self._has_ended:
            raise Refused(f"The output of {self._pod} cannot be had: {complaint}", 500, complaint, "")
        # Only where all else is known already: an answer may have broken off within a line.
        if (self._has_ended or not self.is_new) and (rest := lines.rest()) is not None:
            yield rest


class _Follower:
    """What the API sends on one connection."""

    def __init__(self, cluster: Cluster, pod: str, query: dict[str, Any], read_seconds: float | None) -> None:
        self._arrivals = Arrivals()
        self._response: Any = None
        self._is_closed = False
        self._cluster = cluster
        self._pod = pod
        self._query = query
        self._read_seconds = read_seconds
        threading.Thread(target=self._run, name="nemo-pod-logs", daemon=True).start()

    def blocks(self, stop: Signal) -> Iterator[bytes | None]:
        """Bytes as they arrive, None when there were none for a while; ends with the connection.

        :raises BackendError: it was cut off, or the API is away
        """
        while not stop.is_set() and (block := self._arrivals.take(SIGN_OF_LIFE_SECONDS)) is not None:
            yield block or None

    def close(self) -> None:
        """Nobody listens any more."""
        self._is_closed = True
        self._arrivals.refuse()
        if self._response is not None:
            hang_up(self._response)

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            with self._cluster.log(self._pod, self._query, self._read_seconds) as response:
                self._response = response
                while not self._is_closed and (block := response.read1(BLOCK_BYTES)) and self._arrivals.put(block):
                    pass
        except BackendError as error:
            end = error
        except BaseException as error:  # such as a broken protocol; the thread must say that it has ended
            end = BackendError(f"The output of {self._pod} broke off: {error}")
        self._arrivals.end(end)


def _rfc3339(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"
