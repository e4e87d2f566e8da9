"""Reading a container's output: a connection to the engine in a thread of its own, opened again where it broke off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from nemo_airflow_provider.backends.base import Chunk, Signal
from nemo_airflow_provider.backends.container.arrivals import Arrivals
from nemo_airflow_provider.backends.container.connection import hang_up
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.engine import refusal
from nemo_airflow_provider.backends.docker.frames import NANO, Frames, Position, Track
from nemo_airflow_provider.errors import BackendError, OutputLost

_BLOCK = 1 << 16
_SIGN_OF_LIFE_SECONDS = 0.9
_RETRY_SECONDS = 0.5
#: Between two looks, while nothing comes, whether anything is still to come; in signs of life.
_LOOK_SIGNS = 10
#: How often the output of what has ended is asked for before the engine's refusal is final; half a minute.
_MOST_REFUSALS = 60
#: The engine reads all that it has, up to where it is asked from, before it says anything.
_SEARCH_SECONDS = 3600


def read(
    access: Access, container: str, task: str, position: Any, stop: Signal, is_over: Callable[[], bool]
) -> Iterator[Chunk | None]:
    """The output from a position to its end; see `Backend.read_logs`.

    :param container: its id
    :param is_over: whether it has ended, or is gone
    :raises OutputLost: it has ended, and the engine goes on refusing
    """
    track, broke_off, refusals = Track(Position()), False, 0
    while not stop.is_set():
        try:
            # Asked first: what is there once it is over is all there will ever be.
            final = is_over()
            if broke_off and not final:
                # An engine that cannot go on with a container's file ends its answer, and would do so at once again.
                yield None
                stop.wait(_RETRY_SECONDS)
            known = Position.parse(position)
            if track.position != known:
                track = Track(known)
            with closing(_Follower(access, container, known.since, follow=not final)) as follower:
                for chunk in _chunks(follower.blocks(stop, is_over), task, track, known):
                    if chunk is not None:
                        position = chunk.end
                    yield chunk
            if final:
                return
            broke_off = True
        except _Refused as error:
            refusals = refusals + 1 if final else 0
            if refusals >= _MOST_REFUSALS:
                raise OutputLost(str(error)) from error
            yield None
            stop.wait(_RETRY_SECONDS)
        except BackendError:
            # The engine is away; what it is asked for next begins where this ended.
            yield None
            stop.wait(_RETRY_SECONDS)


class _Refused(BackendError):
    """The engine answers, and does not hand the output out."""


def _chunks(blocks: Iterator[bytes | None], task: str, track: Track, known: Position) -> Iterator[Chunk | None]:
    """What follows a position.

    :param blocks: what the engine sends from there on
    :param track: at the position, or that has to be led there by what is known
    :raises _Refused: the engine says that it cannot go on
    """
    left = known.known if track.position != known else 0
    frames = Frames(skip=known.known - left)
    start = known.dump()
    for block in blocks:
        if block is None:
            yield None
            continue
        for frame in frames.take(block):
            end = track.take(frame).dump()
            if left:
                left -= 1
                continue
            yield Chunk(task, frame.stream, frame.nanos // 1000, frame.data, start, end)
            start = end
    if frames.complaint:
        raise _Refused(f"The engine does not hand out all of the output: {frames.complaint}")


class _Follower:
    """What the engine sends on one connection."""

    def __init__(self, access: Access, container: str, since: int, *, follow: bool) -> None:
        self._arrivals = Arrivals()
        self._answer: Any = None
        self._is_closed = False
        self._access = access
        self._container = container
        self._parameters = {
            "stdout": 1,
            "stderr": 1,
            "timestamps": 1,
            "follow": int(follow),
            **({"since": f"{since // NANO}.{since % NANO:09d}"} if since else {}),
        }
        threading.Thread(target=self._run, name="nemo-docker-logs", daemon=True).start()

    def blocks(self, stop: Signal, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
        """Bytes as they arrive, None when there were none for a while; ends with the connection.

        A network that was cut says nothing: where nothing comes of a container that is over, the connection is dead.

        :raises BackendError: it was cut off, or the engine is away
        """
        silent = 0
        while not stop.is_set() and (block := self._arrivals.take(_SIGN_OF_LIFE_SECONDS)) is not None:
            yield block or None
            silent = 0 if block else silent + 1
            # Asked for all that there is, the engine may search for long; the connection has a timer then.
            if self._parameters["follow"] and silent == _LOOK_SIGNS:
                if is_over():
                    return
                silent = 0

    def close(self) -> None:
        """Nobody listens any more."""
        self._is_closed = True
        self._arrivals.refuse()
        if self._answer is not None:
            hang_up(self._answer.raw)

    def _run(self) -> None:
        from docker.errors import APIError, NotFound

        end: BaseException | None = None
        try:
            with self._access.told(), closing(self._access.client()) as client:
                url = f"{client.base_url}/v{client.api_version}/containers/{self._container}/logs"
                # What lives may have nothing to say for days.
                silence = None if self._parameters["follow"] else _SEARCH_SECONDS
                answer = client.get(url, params=self._parameters, stream=True, timeout=(client.timeout, silence))
                client._raise_for_status(answer)
                self._answer = answer
                while not self._is_closed and (block := answer.raw.read1(_BLOCK)) and self._arrivals.put(block):
                    pass
        except NotFound:
            pass  # it was removed, and its output with it
        except APIError as error:
            end = _Refused(f"The engine does not hand out the output of {self._container}: {refusal(error)}")
        except BackendError as error:
            end = error
        except BaseException as error:  # such as a broken protocol; the thread must say that it has ended
            end = BackendError(f"The output of {self._container} broke off: {error}")
        self._arrivals.end(end)
