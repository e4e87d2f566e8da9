"""How often a component that ends by itself is started again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MOST = 5
WITHIN_SECONDS = 300.0

#: For people.
ALLOWANCE = f"{MOST} times within {WITHIN_SECONDS / 60:g} minutes"


class Restarts:
    """The restarts of one component. Only those of the last minutes count: rare ones do not add up over days.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moments: deque[float] = deque()

    def take(self) -> int:
        """Use one restart: its number among the ones that count, from 1; 0 when there is none left."""
        now = self._clock()
        while self._moments and self._moments[0] <= now - WITHIN_SECONDS:
            self._moments.popleft()
        if len(self._moments) >= MOST:
            return 0
        self._moments.append(now)
        return len(self._moments)
