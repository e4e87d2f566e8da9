"""Airflow's settings that make jobs quick and safe, with the value and the reason of each.

The install guide has the measurements behind them; the launcher uses the same values.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A number in Airflow's configuration.

    :param most: the value is right when it is not above this
    :param unless: what happens otherwise
    """

    section: str
    name: str
    most: float
    unless: str

    def __str__(self) -> str:
        return f"[{self.section}] {self.name}"


RECOMMENDED = (
    Recommendation("scheduler", "scheduler_idle_sleep_time", 0.1, "the next step starts up to 1 s later"),
    Recommendation("workers", "min_heartbeat_interval", 1, "a cancel or a failed step is seen up to 6 s later"),
    Recommendation(
        "scheduler", "orphaned_tasks_check_interval", 30, "steps of a scheduler that died wait up to 5 minutes"
    ),
    Recommendation("scheduler", "task_instance_heartbeat_timeout", 60, "a lost worker is noticed after 5 minutes"),
)
