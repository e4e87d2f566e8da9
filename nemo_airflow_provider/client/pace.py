"""How often a watch looks, and how long it waits after a failure."""

from __future__ import annotations

from collections.abc import Callable

from nemo_airflow_provider.client.errors import ClientError, is_transient, is_trouble_of_server

_FASTEST_POLL_SECONDS = 0.3
_SLOWEST_POLL_SECONDS = 3.0
_POLL_GROWTH = 1.5
_SHORTEST_BACK_OFF_SECONDS = 1.0
_LONGEST_BACK_OFF_SECONDS = 30.0


class Poll:
    """Time between two looks."""

    def __init__(self, fixed_seconds: float | None) -> None:
        self._fixed = fixed_seconds
        self._next = _FASTEST_POLL_SECONDS

    @property
    def fixed_seconds(self) -> float | None:
        """The time that was asked for."""
        return self._fixed

    def quicken(self) -> None:
        """Something happens: look again soon."""
        self._next = _FASTEST_POLL_SECONDS

    def next_seconds(self) -> float:
        """How long to wait now; longer the next time."""
        if self._fixed is not None:
            return self._fixed
        seconds = self._next
        self._next = min(seconds * _POLL_GROWTH, _SLOWEST_POLL_SECONDS)
        return seconds


class BackOff:
    """Waits twice as long after each failure in a row, and says the same thing once."""

    def __init__(self, poll: Poll) -> None:
        self._shortest = max(poll.fixed_seconds or 0.0, _SHORTEST_BACK_OFF_SECONDS)
        self._longest = max(self._shortest, _LONGEST_BACK_OFF_SECONDS)
        self.over()

    def over(self) -> None:
        """It went well: begin anew."""
        self._seconds = self._shortest
        self._said: str | None = None

    def again(self, message: str) -> tuple[str | None, float]:
        """(what to say, None if it was said before; seconds to wait)."""
        seconds = self._seconds
        self._seconds = min(seconds * 2, self._longest)
        said, self._said = self._said, message
        return (None if said == message else message), seconds


class Patience:
    """How long a server that is in trouble is borne with.

    :param seconds: from the first failure in a row on, with any answer of 500 or above too; None: for ever, with
        what passes by itself only
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clock = clock
        self._since: float | None = None
        #: Whether the last failure was not worth another try.
        self.is_used_up = False

    def over(self) -> None:
        """It went well: begin anew."""
        self._since = None
        self.is_used_up = False

    def bears(self, error: ClientError) -> bool:
        """Whether the request is worth another try."""
        if self.seconds is None:
            self.is_used_up = not is_transient(error)
        else:
            now = self._clock()
            if self._since is None:
                self._since = now
            self.is_used_up = not is_trouble_of_server(error) or now - self._since > self.seconds
        return not self.is_used_up
