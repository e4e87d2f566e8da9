"""Where the files of a workload are, how they are read, and the locks on their directories."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.subprocess.reach import open_file
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

JOB_STORAGE = "job-storage"
CONFIG_FILE = "job_step_config.json"

_LOCK_POLL_SECONDS = 0.005
_MOST_BYTES = 1 << 16  # ours have a few hundred


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one workload.

    :param root: the profile's `working_directory`
    :param run: see `run_directory`
    """

    root: Path
    workspace: str
    run: str
    step: str
    task: str

    @property
    def job(self) -> Path:
        """The directory of the job: its steps, and the storage they share."""
        return self.root / self.workspace / self.run

    @property
    def storage(self) -> Path:
        """Storage shared by all steps and attempts of the job."""
        return self.job / JOB_STORAGE

    @property
    def work(self) -> Path:
        """The workload's own directory, where its command starts."""
        return self.job / self.step / self.task

    @property
    def scratch(self) -> Path:
        """The workload's ephemeral storage."""
        return self.work / "scratch"

    @property
    def config(self) -> Path:
        """The directory of the step's configuration."""
        return self.work / "config"


def place_of(root: Path, key: WorkloadKey) -> Place:
    """The paths of a key.

    :raises BackendError: a part of the key is no file name
    """
    return Place(
        root,
        component(key.workspace),
        run_directory(key.run_id, key.run_key),
        step_directory(key.step),
        key.task,
    )


def component(name: str) -> str:
    """`name`, if it can be the name of a directory of a workspace, job or step; none begins with a dot.

    :raises BackendError: it cannot
    """
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(os.fsencode(name)) > 255:
        raise BackendError(f"{name!r} cannot be the name of a directory: subprocess steps cannot run under it")
    return name


def run_directory(run_id: str, run_key: str) -> str:
    """The name of a job's directory. A run of another DAG may have the same run id; no other run has the key.

    A run key has no dot, so the last one parts the two.

    :raises BackendError: see `component`
    """
    return component(f"{run_id}.{run_key}")


def step_directory(step: str) -> str:
    """The name of a step's directory. A step may be called like the job's storage: `~` is in no step's name.

    :raises BackendError: see `component`
    """
    name = component(names.task_id_of(step))
    return f"{name}~" if name == JOB_STORAGE else name


def claim_lock(directory: int, seconds: float, shared: bool = False) -> bool:
    """Lock an open directory; it stays locked until the last copy of the descriptor is closed.

    :return: False when somebody else has held it for so long
    """
    deadline = time.monotonic() + seconds
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(directory, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)


def is_locked(file: int) -> bool:
    """Whether another open file holds a lock on this one. Looks for microseconds, as a shared lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def read_record(directory: int, *path: str) -> dict[str, Any] | None:
    """A JSON object of ours; None when the file is not there, or is not as we write it any more.

    :param path: see `open_file`
    """
    file = open_file(directory, *path)
    if file is None:
        return None
    try:
        data = os.read(file, _MOST_BYTES + 1)
        record = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    finally:
        os.close(file)
    return record if isinstance(record, dict) else None
