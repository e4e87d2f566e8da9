"""Options of Airflow's `[nemo]` section that a step needs, where one that is wrong must not lose what runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import ConfigError

T = TypeVar("T")


class StepOptions(NamedTuple):
    """What they say; in place of what is wrong, their defaults: a workload that runs is watched on with these.

    :param task_log_max_lines: see `settings.task_log_max_lines`
    :param pause_hold_seconds: see `settings.pause_hold_seconds`
    :param fault: what is wrong, for a step that has not begun
    """

    task_log_max_lines: int
    pause_hold_seconds: float
    fault: str | None

    @classmethod
    def read(cls) -> StepOptions:
        """What they say now."""
        faults: list[str] = []
        lines = _or(faults, settings.task_log_max_lines, settings.TASK_LOG_MAX_LINES)
        hold = _or(faults, settings.pause_hold_seconds, settings.PAUSE_HOLD_SECONDS)
        return cls(lines, hold, " ".join(faults) or None)


def _or(faults: list[str], read: Callable[[], T], default: T) -> T:
    try:
        return read()
    except ConfigError as error:
        faults.append(str(error))
        return default
