"""What `SupportsPause` and `SupportsFreeze` promise, asked of every backend that has the power."""

from __future__ import annotations

import time
from threading import Event, Timer

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase
from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsPause
from tests.contract.harness import Harness
from tests.contract.test_backend import end, running, text
from tests.waiting import wait_until

COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done"


@pytest.fixture
def pausing(backend: Backend) -> Backend:
    if not isinstance(backend, SupportsPause):
        pytest.skip("it lacks the power to pause")
    return backend


@pytest.fixture
def freezing(backend: Backend) -> SupportsFreeze:
    if not isinstance(backend, SupportsFreeze):
        pytest.skip("it lacks the power to freeze")
    return backend


def lines(backend: Backend, engine: Harness) -> int:
    """How many lines it has printed so far."""
    stop = Event()
    Timer(0.3, stop.set).start()
    return sum(chunk.data.count(b"\n") for chunk in backend.read_logs(engine.key(), None, stop) if chunk)


def freeze(engine: Harness, backend: Backend) -> None:
    assert isinstance(backend, SupportsFreeze)
    backend.freeze(engine.key())
    wait_until(lambda: backend.observe(engine.key()).frozen, 6 * engine.seconds, "everybody to stand still")


def test_a_later_start_follows_one_that_was_stopped_and_finds_the_jobs_storage(
    engine: Harness, pausing: Backend
) -> None:
    keep = 'echo x >> "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/kept"; '
    pausing.submit(engine.workload(f"trap 'exit 0' TERM; {keep} echo up; {COUNT}"))
    running(engine, pausing)
    pausing.stop(engine.key(), 60)
    assert end(engine, pausing).stopped == "asked"
    later = engine.key(start=1)
    pausing.submit(engine.workload(f'{keep} cat "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/kept"', later))
    assert end(engine, pausing, later).exit_code == 0
    assert text(pausing, later) == b"x\nx\n"


def test_a_frozen_workload_stands_still_and_goes_on(engine: Harness, freezing: Backend) -> None:
    freezing.submit(engine.workload(COUNT))
    running(engine, freezing)
    for _ in range(5):
        freeze(engine, freezing)
        before = lines(freezing, engine)
        time.sleep(0.3)
        assert lines(engine.make(), engine) == before
        other = engine.make()
        assert isinstance(other, SupportsFreeze)
        other.thaw(engine.key())
        wait_until(lambda: lines(freezing, engine) > before, 6 * engine.seconds, "it to go on")  # noqa: B023
        assert not freezing.observe(engine.key()).frozen


def test_freezing_twice_and_thawing_what_is_not_frozen_is_harmless(engine: Harness, freezing: Backend) -> None:
    assert isinstance(freezing, SupportsFreeze)
    freezing.submit(engine.workload(f"trap 'exit 3' TERM; {COUNT}"))
    running(engine, freezing)
    freezing.thaw(engine.key())
    for _ in range(2):
        freeze(engine, freezing)
    freezing.thaw(engine.key())
    freezing.thaw(engine.key())
    freezing.stop(engine.key(), 60)
    assert end(engine, freezing).exit_code == 3
    for verb in (freezing.freeze, freezing.thaw):
        verb(engine.key())
    seen = freezing.observe(engine.key())
    assert (seen.phase, seen.exit_code, seen.frozen) == (Phase.ENDED, 3, False)


def test_a_frozen_workload_hears_a_stop(engine: Harness, freezing: Backend) -> None:
    freezing.submit(engine.workload(f"trap 'echo bye; exit 5' TERM; {COUNT}"))
    running(engine, freezing)
    freeze(engine, freezing)
    freezing.stop(engine.key(), 60)
    seen = end(engine, freezing)
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 5, "asked")
    assert b"bye\n" in text(freezing, engine.key())


def test_a_freeze_of_something_unknown_does_nothing(engine: Harness, freezing: Backend) -> None:
    assert isinstance(freezing, SupportsFreeze)
    freezing.freeze(engine.key())
    freezing.thaw(engine.key())
    assert freezing.observe(engine.key()).phase is Phase.ABSENT
