"""How often a step's runner asks, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds.

    :param intent: between looks at what is wished in the first minute, while a person may be watching
    :param intent_later: after that
    :param engine: between two questions to an engine that has no room or does not answer
    :param engine_timer: how much later than an engine's own timer for the active TTL ours goes off
    :param away: how long an engine that does not answer is asked at least, whatever limit has run out
    :param stop_again: how long after its grace a workload is asked again to end
    :param result: how long a file that a workload left may be asked for before its step fails
    :param last: Airflow kills a process 5 s after SIGTERM; what must be done then is done within this
    :param park: how long a paused step keeps its worker slot
    """

    intent: float = 1.0
    intent_later: float = 3.0
    engine: float = 1.0
    engine_timer: float = 5.0
    away: float = 60.0
    stop_again: float = 15.0
    result: float = 300.0
    last: float = 4.0
    park: float = 10.0
