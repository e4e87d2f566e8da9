"""Running one step: submit or adopt, pump, observe, obey intents, finish. The door is `run_step`."""

from __future__ import annotations

from nemo_airflow_provider.runner.loop import Timing, run_step
from nemo_airflow_provider.runner.repeat import Repeats
from nemo_airflow_provider.runner.task import (
    StepFailed,
    StepHost,
    StepLeft,
    StepTask,
    StoreUnavailable,
    Wakeup,
)

__all__ = [
    "Repeats",
    "StepFailed",
    "StepHost",
    "StepLeft",
    "StepTask",
    "StoreUnavailable",
    "Timing",
    "Wakeup",
    "run_step",
]
