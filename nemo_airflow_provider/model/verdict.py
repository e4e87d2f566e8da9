"""What the sweep says about a step whose runner went without a word: beside its record, never over it.

The runner writes `step/<generation>`, the sweep `verdict/<generation>`. Readers prefer a record that says how the step
ended, then the verdict; a runner that writes after the verdict is right and the sweep is not.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nemo_airflow_provider.model.record import Moment, StepRecord, Stored, parse
from nemo_airflow_provider.model.status import Status


class Verdict(Stored):
    """How a generation of a step ended, out of what Airflow and the engine say.

    :param status: completed, error or cancelled
    :param status_details: with `message`, and the workload's exit code where there is one
    :param at: when the sweep saw it
    """

    status: Status
    status_details: dict[str, Any] = Field(default_factory=dict)
    error_details: dict[str, Any] = Field(default_factory=dict)
    at: Moment


def verdict_key(generation: int) -> str:
    """Key of the verdict about one generation of a step."""
    return f"verdict/{generation}"


def parse_verdict(value: object) -> Verdict | None:
    """A stored verdict; None for a value that is none."""
    found = parse(Verdict, value)
    return found if found is not None and found.status.terminal else None


def judged(record: StepRecord, verdict: Verdict) -> StepRecord:
    """The record as readers take it, once there is a verdict: the same when a runner has had the last word."""
    if record.status.terminal or record.updated_at > verdict.at:
        return record
    details = {**record.status_details, **verdict.status_details}
    tasks = [
        task
        if task.status.terminal
        else task.model_copy(
            update={
                "status": verdict.status,
                "status_details": {**task.status_details, **verdict.status_details},
                "error_details": verdict.error_details,
                "updated_at": verdict.at,
            }
        )
        for task in record.tasks
    ]
    return record.model_copy(
        update={
            "status": verdict.status,
            "status_details": details,
            "error_details": verdict.error_details,
            "updated_at": verdict.at,
            "ended_at": verdict.at,
            "tasks": tasks,
        }
    )
