"""What is on its way from the engine to the reader: bounded, in order, and all of it before the end is told."""

from __future__ import annotations

import threading

import pytest

from nemo_airflow_provider.backends.container import arrivals as module
from nemo_airflow_provider.backends.container.arrivals import Arrivals
from nemo_airflow_provider.errors import BackendError
from tests.waiting import wait_until

SECONDS = 60.0


def test_what_has_arrived_meanwhile_is_taken_at_once_and_in_order() -> None:
    arrivals = Arrivals()
    assert arrivals.take(0) == b""
    assert all([arrivals.put(b"one"), arrivals.put(b"two")])
    assert arrivals.take(SECONDS) == b"onetwo"
    arrivals.put(b"three")
    arrivals.end(None)
    assert arrivals.take(SECONDS) == b"three"
    assert arrivals.take(SECONDS) is None


def test_an_error_is_told_when_all_else_is_taken() -> None:
    arrivals = Arrivals()
    arrivals.put(b"one")
    arrivals.end(BackendError("it broke off"))
    assert arrivals.take(SECONDS) == b"one"
    with pytest.raises(BackendError, match="it broke off"):
        arrivals.take(SECONDS)


def test_who_brings_more_than_is_taken_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    arrivals = Arrivals()
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
    monkeypatch.setattr(module, "_MOST_BYTES", 1)
    arrivals = Arrivals()
    wanted = [arrivals.put(b"1")]
    bringing = threading.Thread(target=lambda: wanted.append(arrivals.put(b"2")), daemon=True)
    bringing.start()
    arrivals.refuse()
    bringing.join(SECONDS)
    assert wanted == [True, False]
