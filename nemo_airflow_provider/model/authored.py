"""Runs of DAGs that people write: which job a run is, and what its tasks are called. The other half of `names`.

Airflow's DAG, run and task ids are freer than names of jobs and steps. What fits is kept, the rest is told apart by a
hash; `@` and `+` are in no id of Airflow's, so a name that is made here is never one that was kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.spec import JobSpec

#: A DAG with the tag `nemo:<workspace>` may hold jobs of the workspace; its `JobDocument` decides.
TAG_PREFIX = "nemo:"

#: Where `job_dag` puts the document: Airflow stores default arguments with each version of a DAG, and ignores those
#: that no operator knows.
DOCUMENT_KEY = "nemo_job"

_HASH = 8
_NAMED = re.compile(rf"(?P<head>.+)-[0-9a-f]{{{_HASH}}}")
_MAX_HEAD = names.MAX_NAME_WITHOUT_OUTPUT_LOCATION - _HASH - 1
_MAX_STEP = 63
#: Above every place of a step in a job.
_FIRST_STREAM = 1 << 48


def workspace_tag(workspace: str) -> str:
    """The tag of DAGs that hold jobs of a workspace."""
    return TAG_PREFIX + workspace


def job_name(dag_id: str, run_id: str) -> str:
    """The name of the job that a run is: the DAG's id as far as it fits, and 8 hex digits of DAG id and run id."""
    digest = _digest(f"{dag_id}\n{run_id}", _HASH)
    return f"{head_of(dag_id)}-{digest}"


def head_of(dag_id: str) -> str:
    """The part of a job's name that comes from the DAG id."""
    return _slug(dag_id)[:_MAX_HEAD].rstrip("-") or "dag"


def head_in(name: str) -> str | None:
    """The inverse for the name of a job: the `head_of` its DAG; None when no run of an authored DAG has that name."""
    match = _NAMED.fullmatch(name)
    return match["head"] if match else None


def step_name(task_id: str, map_index: int = -1) -> str:
    """The name of the step that a task instance of an ordinary DAG is; one task instance of a run has it.

    :param map_index: Airflow's; negative where the task is not mapped
    """
    mapped = f"@{map_index}" if map_index >= 0 else ""
    if names.is_name(task_id) and len(task_id) + len(mapped) <= _MAX_STEP:
        return task_id + mapped
    told_apart = f"+{_digest(task_id, 12)}{mapped}"
    return (_slug(task_id)[: _MAX_STEP - len(told_apart)].rstrip("-") or "task") + told_apart


def stream_number(step: str) -> int:
    """What tells the log of a task of an ordinary DAG from the others of its run; see `StreamId.step_index`."""
    return _FIRST_STREAM + int(_digest(step, 12), 16)


def _slug(text: str) -> str:
    """As much of an id as a name may begin with."""
    return re.sub(r"^[^a-z]+", "", re.sub(r"[^a-z0-9._]+", "-", text.lower()))


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class JobDocument:
    """The job of every run of a DAG, as it is stored with each version of the DAG.

    :param workspace: the workspace of its runs
    :param conf: what a run made by the jobs API would carry as its conf
    """

    workspace: str
    conf: Mapping[str, Any]

    def dumps(self) -> str:
        """As text."""
        return json.dumps({"workspace": self.workspace, "conf": self.conf})


@lru_cache(maxsize=256)
def read_document(text: str) -> JobDocument | None:
    """The inverse of `JobDocument.dumps`; None for a text that holds no job that could run.

    A list asks it for every run, and most runs share a few texts.
    """
    try:
        data = json.loads(text)
        workspace, conf = data["workspace"], data["conf"]
        if not isinstance(workspace, str) or not isinstance(conf, dict) or flaw_in(conf) is not None:
            return None
        JobSpec.model_validate(conf)
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        return None
    return JobDocument(workspace, conf)
