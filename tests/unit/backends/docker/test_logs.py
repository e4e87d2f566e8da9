"""What is on its way from the engine to the reader: bounded, in order, and all of it before the end is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.backends.docker import logs
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.frames import Position, Track
from nemo_airflow_provider.errors import BackendError
from tests.unit.backends.docker.test_frames import BASE, NANO, engine_output, framed, stamp
from tests.waiting import wait_until

SECONDS = 60.0


def test_what_has_arrived_meanwhile_is_taken_at_once_and_in_order() -> None:
    arrivals = logs._Arrivals()
    assert arrivals.take(0) == b""
    assert all([arrivals.put(b"one"), arrivals.put(b"two")])
    assert arrivals.take(SECONDS) == b"onetwo"
    arrivals.put(b"three")
    arrivals.end(None)
    assert arrivals.take(SECONDS) == b"three"
    assert arrivals.take(SECONDS) is None


def test_an_error_is_told_when_all_else_is_taken() -> None:
    arrivals = logs._Arrivals()
    arrivals.put(b"one")
    arrivals.end(BackendError("it broke off"))
    assert arrivals.take(SECONDS) == b"one"
    with pytest.raises(BackendError, match="it broke off"):
        arrivals.take(SECONDS)


def test_who_brings_more_than_is_taken_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_BYTES", 10)
    arrivals = logs._Arrivals()
    brought: list[int] = []

    def bring() -> None:
        for number in range(100):
            arrivals.put(b"12345")
            brought.append(number)
        arrivals.end(None)

    threading.Thread(target=bring, daemon=True).start()
    wait_until(lambda: len(brought) == 2, SECONDS)
    blocks = []
    while (block := arrivals.take(SECONDS)) is not None:
        blocks.append(block)
    assert b"".join(blocks) == b"12345" * 100
    assert max(map(len, blocks)) == 10


def test_who_brings_to_nobody_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_BYTES", 1)
    arrivals = logs._Arrivals()
    wanted = [arrivals.put(b"1")]
    bringing = threading.Thread(target=lambda: wanted.append(arrivals.put(b"2")), daemon=True)
    bringing.start()
    arrivals.refuse()
    bringing.join(SECONDS)
    assert wanted == [True, False]


@pytest.mark.parametrize("read_before", [True, False])
def test_another_connection_gives_what_follows_the_position(read_before: bool) -> None:
    """Both with what the reader knows from the connection before, and with the stored position alone."""
    records = [logs.Frames().take(framed(1, stamp(BASE + n * NANO // 2) + b" %d\n" % n)) for n in range(20)]
    frames = [frame for each in records for frame in each]
    track = Track(Position())
    first = list(logs._chunks(iter([engine_output(frames[:12]), None]), "t", track, Position()))
    assert first[-1] is None
    last = first[-2]
    assert isinstance(last, Chunk)
    position = Position.parse(last.end)
    assert position.known > 1
    again = iter([engine_output(frames, position.since)])
    rest = list(logs._chunks(again, "t", track if read_before else Track(position), position))
    assert [chunk.data for chunk in rest if chunk] == [b"%d\n" % n for n in range(12, 20)]


def test_an_engine_that_ends_its_answers_is_not_asked_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Follower:
        def __init__(self, *_: object, follow: bool) -> None:
            asked.append(follow)

        def blocks(self, _: object) -> Iterator[bytes | None]:
            return iter(())

        def close(self) -> None: ...

    class Stop(threading.Event):
        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            return False

    monkeypatch.setattr(logs, "_Follower", Follower)
    stop, over = Stop(), iter([False, False, False, True])
    assert list(logs.read(Access(), "c", "t", None, stop, lambda: next(over))) == [None, None]
    assert (asked, stop.waits) == ([True, True, True, False], 2)
