"""Waiting for a condition with a deadline, the only way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(look: Callable[[], T], seconds: float = 60.0, what: str = "it", *, pause_seconds: float = 0.005) -> T:
    """Call `look` until it answers something true, and return that.

    :raises AssertionError: the time is over
    """
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(pause_seconds)
    return answer
