"""Bytes of an engine on their way between two threads."""

from __future__ import annotations

import threading

#: Bytes that wait to be looked at: where the reader is slow, the engine waits, and memory stays bounded.
_MOST_BYTES = 1 << 20
#: For more to arrive after the first: to wake up for each line costs more than the line.
_GATHER_SECONDS = 0.01


class Arrivals:
    """Bytes on their way from the thread that receives them to who looks at them.

    The engine sends each line by itself: whoever is slower than it takes all at once that has arrived meanwhile.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ended = self._refused = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, block: bytes) -> bool:
        """Add some, as soon as there is room; whether anybody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._refused or len(self._bytes) < _MOST_BYTES)
            if not self._bytes:
                self._changed.notify()
            self._bytes += block
            return not self._refused

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes.

        :param error: why, unless all has come
        """
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def take(self, seconds: float) -> bytes | None:
        """All that has arrived; nothing if nothing does for so long; None at the end.

        :raises BaseException: what `end` was told, once all else is taken
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._bytes or self._ended, seconds):
                self._changed.wait_for(lambda: self._ended, _GATHER_SECONDS)
            block = bytes(self._bytes)
            self._bytes.clear()
            self._changed.notify()
            if block or not self._ended:
                return block
            if self._error is not None:
                raise self._error
            return None

    def refuse(self) -> None:
        """Nobody takes any more."""
        with self._changed:
            self._refused = True
            self._bytes.clear()
            self._changed.notify()
