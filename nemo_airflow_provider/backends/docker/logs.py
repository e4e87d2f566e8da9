"""Reading a container's output: a connection to the engine in a thread of its own, opened again where it broke off."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from nemo_airflow_provider.backends.base import Chunk, Signal
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.frames import NANO, Frames, Position, Track
from nemo_airflow_provider.errors import BackendError

_BLOCK = 1 << 16
#: Blocks that wait to be looked at: where the reader is slow, the engine waits, and memory stays bounded.
_MOST_BLOCKS = 64
_SIGN_OF_LIFE_SECONDS = 0.9
_RETRY_SECONDS = 0.5


def read(
    access: Access, container: str, task: str, position: Any, stop: Signal, is_over: Callable[[], bool]
) -> Iterator[Chunk | None]:
    """The output from a position to its end; see `Backend.read_logs`.

    :param container: its id
    :param is_over: whether it has ended, or is gone
    """
    known = Position.parse(position)
    while not stop.is_set():
        try:
            # Asked first: what is there once it is over is all there will ever be.
            final = is_over()
            with closing(_Follower(access, container, known.since, follow=not final)) as follower:
                for chunk in _chunks(follower, task, known, stop):
                    if chunk is not None:
                        known = Position.parse(chunk.end)
                    yield chunk
            if final:
                return
        except BackendError:
            # The engine is away; what it is asked for next begins where this ended.
            yield None
            stop.wait(_RETRY_SECONDS)


def _chunks(follower: _Follower, task: str, known: Position, stop: Signal) -> Iterator[Chunk | None]:
    frames, track, left = Frames(), Track(known), known.known
    start = known.dump()
    for block in follower.blocks(stop):
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


class _Follower:
    """What the engine sends on one connection."""

    def __init__(self, access: Access, container: str, since: int, *, follow: bool) -> None:
        self._blocks: queue.Queue[bytes | BaseException | None] = queue.Queue(_MOST_BLOCKS)
        self._closed = threading.Event()
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

    def blocks(self, stop: Signal) -> Iterator[bytes | None]:
        """Bytes as they arrive, None when there were none for a while; ends with the connection.

        :raises BackendError: it was cut off
        """
        while not stop.is_set():
            try:
                block = self._blocks.get(timeout=_SIGN_OF_LIFE_SECONDS)
            except queue.Empty:
                yield None
                continue
            if block is None:
                return
            if isinstance(block, BaseException):
                raise block
            yield block

    def close(self) -> None:
        """Nobody listens any more."""
        self._closed.set()
        while not self._blocks.empty():
            self._blocks.get_nowait()

    def _run(self) -> None:
        from docker.errors import APIError, NotFound

        end: BaseException | None = None
        try:
            with self._access.told(), closing(self._access.client()) as client:
                url = f"{client.base_url}/v{client.api_version}/containers/{self._container}/logs"
                answer = client.get(url, params=self._parameters, stream=True, timeout=(60, None))
                client._raise_for_status(answer)
                while not self._closed.is_set() and (block := answer.raw.read1(_BLOCK)):
                    self._put(block)
        except NotFound:
            pass  # it was removed, and its output with it
        except APIError as error:
            end = BackendError(f"The engine does not hand out the output of {self._container}: {error.explanation}")
        except BackendError as error:
            end = error
        except BaseException as error:  # such as a broken protocol; the thread must say that it has ended
            end = BackendError(f"The output of {self._container} broke off: {error}")
        self._put(end)

    def _put(self, block: bytes | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                self._blocks.put(block, timeout=1)
            except queue.Full:
                continue
            return
