"""Keeps a step's record as small as Airflow's state store takes it: pure.

Each start of a step leaves a task row, and a step may be started a hundred times (`runner.repeat`), or paused as often.
"""

from __future__ import annotations

import json

from nemo_airflow_provider.model.record import StepRecord, TaskRecord

#: Beyond 64 KiB (`[state_store] max_value_storage_bytes`) Airflow writes a warning into the task's log at each write.
MOST_BYTES = 60_000
_MOST_CHARACTERS = 200


def shorten(record: StepRecord) -> None:
    """Take words from the rows of ended workloads until the record is small enough, the oldest first: the ends of their
    output before what is known of their ends. The log has all output still, and the newest workload's row stays whole.
    """
    if len(record.tasks) < 2:
        return  # nothing to take, and not worth a look at each write
    excess = len(json.dumps(record.model_dump(mode="json", exclude_defaults=True))) - MOST_BYTES
    for forget in (_forget_output, _forget_details):
        for row in record.tasks[:-1]:
            if excess <= 0:
                return
            if row.status.terminal:
                before = _size(row)
                forget(row)
                excess -= before - _size(row)


def _size(row: TaskRecord) -> int:
    return len(json.dumps(row.model_dump(mode="json", exclude_defaults=True)))


def _forget_output(row: TaskRecord) -> None:
    row.error_stack = None


def _forget_details(row: TaskRecord) -> None:
    row.status_details = _essence(row.status_details)
    # Faults of the platform have a budget of their own (`runner.repeat`): whose fault it was is still counted.
    row.error_details = {"fault": "platform"} if row.error_details.get("fault") == "platform" else {}


def _essence(details: dict[str, object]) -> dict[str, object]:
    return {"message": str(details.get("message", ""))[:_MOST_CHARACTERS]}
