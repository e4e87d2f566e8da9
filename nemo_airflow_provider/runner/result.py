"""The file in which a workload leaves its result, read before the step's end is written down."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from nemo_airflow_provider.backends.powers import SupportsResultFile
from nemo_airflow_provider.errors import BackendError, Fault, NemoJobsError
from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.engine import Engine
from nemo_airflow_provider.runner.outcome import Outcome

#: It passes through Airflow's state store, which warns in the task's log beyond 64 KiB, and stays in its database as
#: XCom.
MOST_BYTES = 48 * 1024

_PLACE = "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"


class ResultMissing(NemoJobsError):
    """A workload that completed left no result that can be handed on."""

    code = "result_missing"
    fault: Fault = "user"


class ResultUnreadable(ResultMissing):
    """There may be a result, and nobody can read it."""

    fault = "platform"


def with_result(
    outcome: Outcome, path: str | None, engine: Engine, key: WorkloadKey, mask: Mask, most_seconds: float
) -> tuple[Outcome, Any]:
    """How a step ended, given whether its result is as it must be; and the result.

    :param path: of the file below the task's storage; None: none is asked for
    :param mask: of the step's secrets
    :param most_seconds: how long the file is asked for
    :raises StepLeft: this process had to go first
    """
    if path is None or outcome.status is not Status.COMPLETED:
        return outcome, None
    try:
        return outcome, _read(path, engine, key, mask, most_seconds)
    except ResultMissing as error:
        message = f"Step '{key.step}' {error}"
        told = {"message": message, "fault": error.fault}
        return replace(outcome, status=Status.ERROR, message=message, error=told), None


def _read(path: str, engine: Engine, key: WorkloadKey, mask: Mask, most_seconds: float) -> Any:
    """What the file holds: a JSON value, or text.

    :raises ResultMissing: it is not there, cannot be read, is too large, not of its kind, or holds a secret
    """
    backend = engine.backend
    if not isinstance(backend, SupportsResultFile):
        raise ResultMissing(f"asks for the result file '{path}', and its execution profile hands no files back.")
    try:
        data = engine.patiently(lambda: backend.read_file(key, path, MOST_BYTES + 1), most_seconds)
    except BackendError as error:
        raise ResultUnreadable(
            f"completed, but for {most_seconds:.0f} s its result file '{path}' could not be read: {error}"
        ) from error
    if data is None:
        raise ResultMissing(f"completed, but left no result file '{path}' below {_PLACE}.")
    if len(data) > MOST_BYTES:
        raise ResultMissing(
            f"left a result file '{path}' of more than {MOST_BYTES} bytes: keep large results in the job's storage and "
            "write down where."
        )
    try:
        text = data.decode()
        value = json.loads(text) if path.endswith(".json") else text
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.endswith(".json") else "UTF-8 text"
        raise ResultMissing(f"left a result file '{path}' that is no {kind}: {error}") from None
    if (flaw := flaw_in(value)) is not None:
        raise ResultMissing(f"left a result file '{path}' that cannot be stored: {flaw}")
    # Refused and not masked: to the next task *** would be data like any other.
    if mask.value(value) != value:
        raise ResultMissing(
            f"left a result file '{path}' that holds the value of a secret of the step, and Airflow shows results to "
            "all who may read the run. Leave the value out; a step that needs the secret names it in its environment."
        )
    return value
