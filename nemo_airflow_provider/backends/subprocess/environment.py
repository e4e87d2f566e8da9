"""The environment of a process workload and the program its command names (job specification contract §5, §6.1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from nemo_airflow_provider.backends.base import Environment

#: All that a workload inherits from the worker.
INHERITED = ("PATH", "VIRTUAL_ENV", "NEMO_AGENTS_WHEEL")

CONFIG_FILE = "NEMO_JOB_STEP_CONFIG_FILE_PATH"
CONFIG_DIRECTORY = "NEMO_JOB_STEP_CONFIG_STORAGE_PATH"
SCRATCH = "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
JOB_STORAGE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"


def compose(
    host: Mapping[str, str],
    profile: Mapping[str, str],
    given: Environment,
    paths: Mapping[str, str],
) -> dict[str, str]:
    """Everything the workload's environment holds.

    :param host: the worker's environment
    :param profile: the profile's `env`
    :param paths: the four path variables; the two of storage cannot be set otherwise, since on a host there is
        nothing to mount elsewhere
    """
    inherited = {name: host[name] for name in INHERITED if name in host}
    storage = {name: paths[name] for name in (SCRATCH, JOB_STORAGE)}
    return {
        **inherited,
        **profile,
        **given.system,
        **paths,
        **given.step,
        **given.platform,
        **given.principal,
        **given.secrets,
        **storage,
    }


def program(name: str, path: str, work: Path, interpreter: str = sys.executable) -> str | None:
    """The file that a command's first word means; None when there is none.

    :param path: the workload's own `PATH`
    :param work: its working directory, where relative entries of `PATH` begin
    :param interpreter: the worker's Python; its directory is looked at before `PATH`
    """
    if "/" in name:
        return name
    if name in ("python", "python3"):
        return interpreter
    first = os.path.join(os.path.dirname(interpreter), name)
    if _runnable(first):
        return first
    candidates = [os.path.join(work, entry, name) for entry in path.split(os.pathsep)]
    runnable = next((file for file in candidates if _runnable(file)), None)
    # A file that may not be run is answered with too: the system's refusal says more than "not found".
    return runnable or next((file for file in candidates if os.path.isfile(file)), None)


def _runnable(file: str) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)
