"""A log line and its time as text. How lines are stored, paged and followed is `logs/`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

Stream = Literal["stdout", "stderr"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a workload's output.

    :param seq: position in its stream (one stream per step generation), from 0, without gaps
    :param micros: when the engine saw it, microseconds since 1970 UTC
    :param task: the workload's task name (`task-<12 hex>`)
    :param stream: `stdout` or `stderr`
    :param message: decoded text without the line's end
    """

    seq: int
    micros: int
    task: str
    stream: Stream
    message: str

    @property
    def timestamp(self) -> str:
        """ISO 8601, UTC, microseconds, explicit offset."""
        return iso(self.micros)


def iso(micros: int) -> str:
    """Microseconds since 1970 as ISO 8601 UTC with six digits and `+00:00`."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_to_the_second(seconds)}.{rest:06d}+00:00"


@lru_cache(maxsize=16)  # neighbours in a log are of the same second
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def micros_of(text: str) -> int:
    """The inverse of `iso`.

    :raises ValueError: no ISO 8601 time
    """
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
