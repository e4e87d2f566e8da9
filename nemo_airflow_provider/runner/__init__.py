"""Running one step: submit or adopt, pump, observe, obey intents, finish. The door is `run_step`."""

from __future__ import annotations

from nemo_airflow_provider.runner.repeat import Repeats
from nemo_airflow_provider.runner.run import run_step
from nemo_airflow_provider.runner.task import (
    Answer,
    StepFailed,
    StepHost,
    StepLeft,
    StepParked,
    StepTask,
    StoreUnavailable,
    Wakeup,
)
from nemo_airflow_provider.runner.timing import Timing

__all__ = [
    "Answer",
    "Repeats",
    "StepFailed",
    "StepHost",
    "StepLeft",
    "StepParked",
    "StepTask",
    "StoreUnavailable",
    "Timing",
    "Wakeup",
    "run_step",
]
