from __future__ import annotations

from nemo_airflow_provider.standalone.restarts import MOST, WITHIN_SECONDS, Restarts


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_restarts_in_a_row_are_numbered_and_used_up() -> None:
    restarts = Restarts(Clock())
    assert [restarts.take() for _ in range(MOST + 2)] == [*range(1, MOST + 1), 0, 0]


def test_one_that_is_long_ago_does_not_count() -> None:
    clock = Clock()
    restarts = Restarts(clock)
    for _ in range(100):
        assert restarts.take() == 1
        clock.now += WITHIN_SECONDS


def test_used_up_restarts_come_back_one_by_one() -> None:
    clock = Clock()
    restarts = Restarts(clock)
    for _ in range(MOST):
        assert restarts.take()
        clock.now += 1
    clock.now = WITHIN_SECONDS
    assert [restarts.take(), restarts.take()] == [MOST, 0]
