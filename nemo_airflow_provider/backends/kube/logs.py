"""Reading a container's output: the API is asked anew wherever its answer broke off."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from nemo_airflow_provider.backends.base import Chunk, Signal
from nemo_airflow_provider.backends.kube.access import ANSWER_SECONDS, Refused
from nemo_airflow_provider.backends.kube.answers import BLOCK_BYTES, SIGN_OF_LIFE_SECONDS, Answer, Ended
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.lines import Position
from nemo_airflow_provider.errors import BackendError, OutputLost

_RETRY_SECONDS = 0.5
#: For how long the output of what has ended is asked for before a refusal is final: a kubelet may be starting again.
_REFUSED_SECONDS = 300
_TAIL_BYTES = 1 << 16
#: What a kubelet says of a container that has not run.
_NEVER_RAN = re.compile(r" is (waiting to start|not available|terminated)\b")
#: What it says of one that is not there.
_REMOVED = "unable to retrieve container logs"


def read(
    cluster: Cluster,
    pod: str,
    container: str,
    task: str,
    position: Any,
    stop: Signal,
    is_over: Callable[[], bool],
    pause: Callable[[float], object] | None = None,
) -> Iterator[Chunk | None]:
    """The output from a position to its end; see `Backend.read_logs`.

    :param pod: its name
    :param container: its name in the pod
    :param task: that the chunks are of
    :param is_over: whether the container has ended, or the pod is gone
    :param pause: waits for so many seconds, less where `is_over` may have changed; None: `stop.wait`
    :raises OutputLost: it has ended, and the cluster goes on refusing
    """
    patience = _Patience()
    #: What is left once nothing more can be had, if all else was delivered.
    left: list[Chunk] | None = None
    while not stop.is_set():
        final, asked = False, time.monotonic()
        try:
            # Asked first: what is there once it is over is all there will ever be.
            final = is_over()
            answer = Answer(cluster, pod, container, Position.parse(position), follow=not final)
            for chunk in answer.chunks(task, stop, is_over):
                if chunk is not None:
                    position = chunk.end
                yield chunk
            if not answer.is_new:
                return
            # The API ends an answer in good order even where the kubelet's broke off: only what brings nothing is all.
            patience = _Patience()
            continue
        except Refused as error:
            if not _is_removed(error, pod):
                left = None
            if final and (left is not None or _has_none(error)):
                yield from left or ()
                return
            if final and _is_gone(error, pod):
                raise OutputLost(f"Pod {pod} was removed before all of its output was read") from error
            patience.bear(error, final=final)
            seconds = SIGN_OF_LIFE_SECONDS
        except BackendError as error:
            # The API is away, or has ended its answer; what it is asked for next begins where this ended.
            patience, left = _Patience(), error.left if isinstance(error, Ended) else None
            # After what took longer than a pause, none is needed: what was followed to its end is read to it at once.
            seconds = max(0.0, _RETRY_SECONDS - (time.monotonic() - asked))
        yield None
        (pause or stop.wait)(seconds)


def tail(cluster: Cluster, pod: str, container: str, lines: int) -> str:
    """The last words of a container, without times; nothing where they cannot be had.

    :param lines: how many at most
    """
    data = b""
    try:
        query = {"container": container, "tailLines": lines}
        with cluster.log(pod, query, read_seconds=ANSWER_SECONDS) as response:
            while block := response.read1(BLOCK_BYTES):
                data = (data + block)[-_TAIL_BYTES:]
    except BackendError:
        return ""
    return data.decode("utf-8", "replace").strip()


def _is_gone(error: Refused, pod: str) -> bool:
    """Whether there is no such pod; a kubelet that has just started says 404, too, of those it does not know yet."""
    return error.status == 404 and error.words.startswith(f'pods "{pod}" not found')


def _has_none(error: Refused) -> bool:
    """Whether a container that is over has no output: it never ran."""
    return error.status == 400 and _NEVER_RAN.search(error.words) is not None


def _is_removed(error: Refused, pod: str) -> bool:
    """Whether the node has no such container any more; it removes those of a pod that is evicted or deleted."""
    return _is_gone(error, pod) or error.words.startswith(_REMOVED)


class _Patience:
    """With refusals in a row."""

    def __init__(self) -> None:
        self._since: float | None = None

    def bear(self, error: Refused, *, final: bool) -> None:
        """One more.

        :param final: whether the container is over; what lives may be refused for ever
        :raises OutputLost: they go on for too long
        """
        if not final:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > _REFUSED_SECONDS:
            raise OutputLost(str(error)) from error
