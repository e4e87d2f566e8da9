from __future__ import annotations

import pytest

from nemo_airflow_provider.standalone.restarts import MOST, WITHIN_SECONDS, Restart, Restarts
from tests.unit.standalone.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def restarts(clock: Clock) -> Restarts:
    return Restarts(clock)


def use(restarts: Restarts, clock: Clock) -> Restart | None:
    """Plan one and let its pause pass."""
    restart = restarts.plan()
    if restart is not None:
        clock.now += restart.pause_seconds
        assert restarts.take()
    return restart


def test_restarts_in_a_row_are_numbered_and_used_up(restarts: Restarts, clock: Clock) -> None:
    used = [use(restarts, clock) for _ in range(MOST + 2)]
    assert used == [*((number, 2 ** (number - 1)) for number in range(1, MOST + 1)), None, None]


def test_a_database_that_is_away_for_half_a_minute_does_not_use_them_up(restarts: Restarts, clock: Clock) -> None:
    """The component ends as soon as it is started."""
    while clock.now < 30:
        assert use(restarts, clock)


def test_one_is_planned_until_its_pause_is_over(restarts: Restarts, clock: Clock) -> None:
    assert not restarts.is_planned and not restarts.take()
    restarts.plan()
    clock.now += 0.9
    assert restarts.is_planned and not restarts.take()
    clock.now += 0.2
    assert restarts.take() and not restarts.is_planned and not restarts.take()


def test_one_that_is_long_ago_does_not_count(restarts: Restarts, clock: Clock) -> None:
    for _ in range(100):
        assert use(restarts, clock) == (1, 1)
        clock.now += WITHIN_SECONDS


def test_used_up_restarts_come_back_one_by_one(restarts: Restarts, clock: Clock) -> None:
    for _ in range(MOST):
        assert use(restarts, clock)
    clock.now = WITHIN_SECONDS + 1  # the first one began at 1
    assert restarts.plan() == (MOST, 16)
    assert restarts.plan() is None
