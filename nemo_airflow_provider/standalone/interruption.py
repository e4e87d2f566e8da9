"""Ctrl-C, SIGTERM and SIGHUP: the first ends the work, any later one ends the ending."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal came while there was work. Not an `Exception`, as KeyboardInterrupt is not."""


class Interruption:
    """Takes the signals of this process for the length of a block; main thread only.

    :param hurry: called inside the handler for every signal that comes while nothing may be interrupted
    """

    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self._may_raise = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """In this block, and only there, the first signal raises `Stopped`: what follows it is never cut short."""
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        if self._may_raise:
            self._may_raise = False
            raise Stopped
        self._hurry()
