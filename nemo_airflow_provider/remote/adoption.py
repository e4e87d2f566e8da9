"""Whose job it is: the mark that a task's job carries in its `custom_fields`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.remote.naming import Caller

#: Our key in a job's `custom_fields`.
FIELD = "nemo_airflow_provider"


def marked(job: Mapping[str, Any], name: str, caller: Caller, mark: str) -> dict[str, Any]:
    """The body to create the job with: the job as written, our name, and whose it is.

    :raises InvalidJob: `custom_fields` is no object
    """
    fields = job.get("custom_fields") or {}
    if not isinstance(fields, Mapping):
        raise InvalidJob("The job's custom_fields must be an object.")
    ours = {**asdict(caller), "mark": mark}
    return {"source": "airflow", "spec": {}, **job, "name": name, "custom_fields": {**fields, FIELD: ours}}


def is_ours(job: Mapping[str, Any], mark: str) -> bool:
    """Whether a job of the server was made by the task that has this mark, in this try or one before."""
    fields = job.get("custom_fields")
    ours = fields.get(FIELD) if isinstance(fields, Mapping) else None
    return isinstance(ours, Mapping) and ours.get("mark") == mark
