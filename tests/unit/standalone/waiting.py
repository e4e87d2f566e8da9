"""Time in tests: waited for where it is real, moved by hand where it is not."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(look: Callable[[], object]) -> None:
    """Return as soon as it is so."""
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
