"""Every name and id, and the only place that makes one.

Job and step names allow ``@ + . _``; Airflow refuses ``@`` in run ids, ``@ +`` in task ids, ``..`` and run ids
that begin like its own. Names have no capitals, so one capital stands for each refused thing and the codec is
reversible: ``@``→``A``, ``+``→``P``, the second dot of ``..``→``D``, the second ``_`` of a reserved prefix→``U``.

A run is identified by its *run key*, computable both where the database is (API) and where it is not (worker):
DAG id, run id and the moment the run was made for. Every other id is the run key and numbers, in base 58.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nemo_airflow_provider.model import base58

NAME_PATTERN = r"^[a-z](?!.*--)[a-z0-9\-@.+_]{1,62}(?<!-)$"
WORKSPACE_PATTERN = r"^[a-z][a-z0-9-]{1,62}$"

#: Longest job name when no `output_location` is given: its fileset is named `job-fileset-<name>`.
MAX_NAME_WITHOUT_OUTPUT_LOCATION = 51

DAG_PREFIX = "nemo."
SHAPE_VARIABLE_PREFIX = "nemo.shape."

_NAME = re.compile(NAME_PATTERN)
_WORKSPACE = re.compile(WORKSPACE_PATTERN)
_RESERVED_PREFIX = re.compile(
    r"^(backfill|scheduled|manual|operator_triggered|asset_triggered|asset_materialization)__"
)
_ENCODE = str.maketrans({"@": "A", "+": "P"})
_DECODE = str.maketrans({"A": "@", "P": "+", "D": ".", "U": "_"})
_RUN_ID = re.compile(r"(?P<name>.+?)(?:~(?P<ordinal>[1-9][0-9]{0,8}))?")
_MAX_ORDINAL = 999_999_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HASH_BITS = 48
_MAX_ENGINE_NAME = 63
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def is_name(value: str) -> bool:
    """Whether `value` is a legal job or step name (contract: 2 to 63 characters)."""
    return _NAME.fullmatch(value) is not None


def is_workspace(value: str) -> bool:
    """Whether `value` is a legal workspace name."""
    return _WORKSPACE.fullmatch(value) is not None


def encode_name(name: str) -> str:
    """A job or step name in Airflow's alphabet for run ids and task ids."""
    encoded = name.translate(_ENCODE)
    encoded = re.sub(r"\.(?=\.)", ".\0", encoded).replace("\0.", "D")
    return _RESERVED_PREFIX.sub(lambda match: f"{match[1]}_U", encoded)


def decode_name(encoded: str) -> str:
    """The inverse of `encode_name`.

    :raises ValueError: nothing that `encode_name` makes
    """
    name = encoded.translate(_DECODE)
    if encode_name(name) != encoded:
        raise ValueError(f"{encoded!r} is not an encoded name")
    return name


def run_id_of(name: str, ordinal: int = 1) -> str:
    """The run id of the job `name`; `ordinal` counts the runs of that name whose predecessors linger.

    :raises ValueError: an ordinal that `job_name_of` would not read
    """
    if not 1 <= ordinal <= _MAX_ORDINAL:
        raise ValueError(f"{ordinal} is no ordinal of a run")
    return encode_name(name) if ordinal == 1 else f"{encode_name(name)}~{ordinal}"


def job_name_of(run_id: str) -> str | None:
    """The job's name, or None when the run is no job of ours (made by hand, by a schedule, …)."""
    match = _RUN_ID.fullmatch(run_id)
    if match is None:
        return None
    try:
        name = decode_name(match["name"])
    except ValueError:
        return None
    return name if is_name(name) and match["ordinal"] != "1" else None


def task_id_of(step: str) -> str:
    """Airflow's task id of a step."""
    return encode_name(step)


def step_name_of(task_id: str) -> str:
    """The step's name of an Airflow task id.

    :raises ValueError: the task id is not one of ours
    """
    return decode_name(task_id)


# --- DAGs -----------------------------------------------------------------------------------------


def anchor_dag_id(workspace: str) -> str:
    """The DAG that always exists for a workspace: permission questions are asked of it."""
    return f"{DAG_PREFIX}{workspace}"


def shape_digest(workspace: str, steps: Sequence[tuple[str, str, str]]) -> str:
    """8 hex digits of a job shape: workspace and ordered (step name, provider, profile)."""
    text = json.dumps([workspace, *([*step] for step in steps)])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def shape_dag_id(workspace: str, steps: Sequence[tuple[str, str, str]]) -> str:
    """DAG id of a shape: readable, at most 200 characters, told apart by the digest at its end."""
    head = f"{DAG_PREFIX}{workspace}."
    digest = shape_digest(workspace, steps)
    room = 200 - len(head) - len(digest) - 1
    readable = "-".join(task_id_of(name) for name, _, _ in steps)[:room].strip(".-")
    return f"{head}{readable}.{digest}"


def shape_variable(dag_id: str) -> str:
    """Key of the Airflow Variable that holds a shape."""
    return SHAPE_VARIABLE_PREFIX + dag_id


def workspace_of_dag(dag_id: str) -> str | None:
    """The workspace that an anchor or shape DAG belongs to; None for any other DAG."""
    if not dag_id.startswith(DAG_PREFIX):
        return None
    workspace = dag_id[len(DAG_PREFIX) :].split(".", 1)[0]
    return workspace if is_workspace(workspace) else None


# --- ids ------------------------------------------------------------------------------------------


def run_key(dag_id: str, run_id: str, run_after: datetime) -> str:
    """The identity of one run: base 58 of its microsecond and 48 bits of a hash.

    A run deleted in Airflow and made again under the same run id is another run: it has another `run_after`.

    :param run_after: the run's `run_after`, with a zone
    :raises ValueError: a naive `run_after`
    """
    if run_after.tzinfo is None:
        raise ValueError("run_after must have a zone")
    micros = (run_after - _EPOCH) // timedelta(microseconds=1)
    digest = hashlib.sha256(f"{dag_id}\n{run_id}".encode()).digest()[: _HASH_BITS // 8]
    return base58.encode((max(micros, 0) << _HASH_BITS) | int.from_bytes(digest, "big"))


def run_after_of(key: str) -> datetime:
    """The moment inside a run key: the database is asked for it, then `run_key` decides.

    :raises ValueError: not a run key
    """
    micros = base58.decode(key) >> _HASH_BITS
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(f"{key!r} is not a run key") from None


_JOB_ID = re.compile(rf"platform-job-([{base58.ALPHABET}]{{8,24}})")


def job_id(key: str) -> str:
    """`platform-job-<run key>`."""
    return f"platform-job-{key}"


def run_key_of_job_id(identifier: str) -> str | None:
    """The run key in a job id, or None when `identifier` is no job id."""
    match = _JOB_ID.fullmatch(identifier)
    return match[1] if match else None


def attempt_id(key: str, number: int) -> str:
    """Id of attempt `number` (Airflow's clear number, from 0)."""
    return f"platform-job-attempt-{key}-{number}"


def attempt_number_of(key: str, identifier: str) -> int | None:
    """The attempt number in an attempt id of this run, or None."""
    head = f"platform-job-attempt-{key}-"
    tail = identifier[len(head) :]
    return int(tail) if identifier.startswith(head) and re.fullmatch(r"0|[1-9][0-9]{0,8}", tail) else None


def step_id(key: str, index: int, generation: int) -> str:
    """Id of one execution of a step."""
    return f"platform-job-step-{key}-{index}-{generation}"


def task_name(key: str, step: str, generation: int, start: int, suffix: str = "") -> str:
    """`task-<12 hex>`: one workload; the same in task row, log line and `NEMO_JOB_TASK`.

    :param suffix: tells the workloads of one start apart (pods of a gang); empty where there is one
    """
    text = f"{key}\n{step}\n{generation}\n{start}" + (f"\n{suffix}" if suffix else "")
    return f"task-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def engine_name(key: WorkloadKey) -> str:
    """What the workload is called in an engine: readable, told apart by the 12 hex of its task.

    At most 63 characters of `[a-z0-9-]`, a letter first: what containers, Jobs and label values can all be called.
    """
    return _engine_name(f"{key.job}-{key.step}", key.task.removeprefix("task-"))


def storage_name(job: str, key: str) -> str:
    """What keeps a run's persistent storage in an engine; as `engine_name`.

    :param key: the run key
    """
    return _engine_name(f"storage-{job}", hashlib.sha256(f"storage\n{key}".encode()).hexdigest()[:12])


def label_value(text: str) -> str:
    """A name, an id or another short text as the value of a Kubernetes label: itself where that may be one.

    Kubernetes takes at most 63 characters of `[A-Za-z0-9._-]`, a letter or digit first and last. What has others is
    encoded as for Airflow; what is still no value is shortened, and told apart by 12 hex after `-X`.
    """
    if _LABEL_VALUE.fullmatch(text):
        return text
    encoded = encode_name(text)
    if _LABEL_VALUE.fullmatch(encoded):
        return encoded
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    words = re.sub(r"[^A-Za-z0-9._-]", "-", encoded)[: _MAX_ENGINE_NAME - len(digest) - 2].strip("-._")
    return f"{words}-X{digest}" if words else f"X{digest}"


def _engine_name(readable: str, digest: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", readable.lower()).strip("-")
    return f"{words[: _MAX_ENGINE_NAME - len(digest) - 1].rstrip('-')}-{digest}"


def task_id(key: str, name: str) -> str:
    """Id of a task row."""
    return f"platform-job-{name.replace('task-', 'task-' + key + '-', 1)}"


def fileset_name(job: str, output_location: str | None = None) -> str:
    """Where a job's artifacts live: its `output_location`, else its own `job-fileset-<name>`."""
    return output_location or f"job-fileset-{job}"


@dataclass(frozen=True, slots=True, order=True)
class WorkloadKey:
    """Names one start of one generation of one step of one run.

    :param workspace: workspace name
    :param run_id: Airflow's run id (of a DAG that people wrote: the encoded job name); other runs may have the same
    :param run_key: see `run_key`
    :param step: step name
    :param generation: grows when this step is cleared after it ran
    :param start: starts 0, 1, … within the generation
    """

    workspace: str
    run_id: str
    run_key: str
    step: str
    generation: int
    start: int

    @property
    def job(self) -> str:
        """The job's name (the run id itself for runs that carry none)."""
        return job_name_of(self.run_id) or self.run_id

    @property
    def task(self) -> str:
        """`task-<12 hex>` of this start."""
        return task_name(self.run_key, self.step, self.generation, self.start)
