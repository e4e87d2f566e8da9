"""How often, and when, a component that ends by itself is started again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

MOST = 5
WITHIN_SECONDS = 300.0

#: For people.
ALLOWANCE = f"{MOST} times within {WITHIN_SECONDS / 60:g} minutes"


class Restart(NamedTuple):
    """One that is planned.

    :param number: its number among the ones that count, from 1
    :param pause_seconds: 1, 2, 4, 8, 16: all five are only used up by what lasts longer than half a minute
    """

    number: int
    pause_seconds: float


class Restarts:
    """The restarts of one component. Only those of the last minutes count: rare ones do not add up over days.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moments: deque[float] = deque()
        self._due: float | None = None

    @property
    def is_planned(self) -> bool:
        """Whether one is still to come."""
        return self._due is not None

    def plan(self) -> Restart | None:
        """Plan one, after a pause; None when there is none left."""
        now = self._clock()
        while self._moments and self._moments[0] <= now - WITHIN_SECONDS:
            self._moments.popleft()
        if len(self._moments) >= MOST:
            return None
        restart = Restart(len(self._moments) + 1, 2.0 ** len(self._moments))
        self._due = now + restart.pause_seconds
        self._moments.append(self._due)
        return restart

    def take(self) -> bool:
        """Use the one that is planned; False as long as its pause is not over."""
        if self._due is None or self._clock() < self._due:
            return False
        self._due = None
        return True
