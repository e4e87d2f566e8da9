"""Options of Airflow's `[nemo]` section, read when asked for so that the environment can change them in tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.configuration import conf

from nemo_airflow_provider import executors
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.secret import SecretName, secret_of
from nemo_airflow_provider.profiles import ProfileSet, load_profiles

SECTION = "nemo"

#: A month: later than any Airflow is restarted, and within what it can compute dates of.
_MOST_SWEEP_SECONDS = 2_592_000

TASK_LOG_MAX_LINES = 5000
PAUSE_HOLD_SECONDS = 10.0

_GRANTS_EXAMPLE = '[["research", "shared/hf-token"]]'


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace and the access control copied to its DAGs."""

    name: str
    access_control: dict[str, Any] | None = field(default=None)


def workspaces() -> dict[str, Workspace]:
    """`[nemo] workspaces`, by name.

    :raises ConfigError: not a JSON list of names or `{name, access_control}` objects
    """
    text = conf.get(SECTION, "workspaces", fallback='["default"]')
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"[nemo] workspaces is not JSON: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise ConfigError('[nemo] workspaces must be a non-empty JSON list, for example ["default"]')
    found: dict[str, Workspace] = {}
    for entry in entries:
        item = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ConfigError(f"[nemo] workspaces: {entry!r} is neither a name nor an object with a name")
        if unknown := set(item) - {"name", "access_control"}:
            raise ConfigError(f"[nemo] workspaces: unknown keys {sorted(unknown)} in {entry!r}")
        if not names.is_workspace(item["name"]):
            raise ConfigError(
                f"[nemo] workspaces: {item['name']!r} is not a workspace name ({names.WORKSPACE_PATTERN})"
            )
        _check_access_control(item["name"], item.get("access_control"))
        found[item["name"]] = Workspace(item["name"], item.get("access_control"))
    return found


def _check_access_control(workspace: str, rules: object) -> None:
    """A wrong one would take every DAG of the file away, since Airflow checks it when the DAG is made."""
    if rules is None:
        return
    resources = list(rules.values()) if isinstance(rules, dict) else [None]
    permissions = [
        actions
        for resource in resources
        for actions in (resource.values() if isinstance(resource, dict) else [resource])
    ]
    if not all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in permissions):
        raise ConfigError(
            f"[nemo] workspaces: access_control of '{workspace}' must map roles to lists of permissions, for all "
            'DAGs or by resource, for example {"Researchers": {"DAG Runs": ["can_read", "can_create"]}}'
        )


def secret_grants() -> frozenset[tuple[str, SecretName]]:
    """`[nemo] secret_grants`: which workspace may use which secret of another one.

    What is wrong is told by its place: whoever reads the error may not know the other workspaces.

    :raises ConfigError: not a JSON list of `["workspace", "other workspace/secret"]`
    """
    text = conf.get(SECTION, "secret_grants", fallback="") or "[]"
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"[nemo] secret_grants is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError(f"[nemo] secret_grants must be a JSON list, for example {_GRANTS_EXAMPLE}")
    known = workspaces()
    return frozenset(_grant(entry, number, known) for number, entry in enumerate(entries, 1))


def _grant(entry: object, number: int, known: Mapping[str, Workspace]) -> tuple[str, SecretName]:
    place = f"[nemo] secret_grants: entry {number}"
    if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)):
        raise ConfigError(f"{place} is not a pair of a workspace and another one's secret, as in {_GRANTS_EXAMPLE}")
    workspace, reference = entry
    secret = secret_of(reference, workspace) if "/" in reference else None
    if secret is None:
        raise ConfigError(f"{place} does not end in 'workspace/secret', as in {_GRANTS_EXAMPLE}")
    if unknown := [name for name in (workspace, secret.workspace) if name not in known]:
        which = "first" if unknown[0] == workspace else "second"
        raise ConfigError(f"{place}: [nemo] workspaces does not list the workspace of its {which} part")
    if secret.workspace == workspace:
        raise ConfigError(f"{place} grants a workspace its own secret, which it may use without")
    return workspace, secret


def may_use(workspace: str, secret: SecretName) -> bool:
    """Whether jobs of a workspace may use a secret: its own, and what `secret_grants` lists.

    :raises ConfigError: see `secret_grants`
    """
    return secret.workspace == workspace or (workspace, secret) in secret_grants()


def storage() -> Path:
    """`[nemo] storage`: the directory shared by workers and API server; default `{AIRFLOW_HOME}/nemo`."""
    configured = conf.get(SECTION, "storage", fallback="")
    if configured:
        return Path(configured).expanduser()
    from airflow.configuration import AIRFLOW_HOME

    return Path(AIRFLOW_HOME) / "nemo"


def config_file() -> Path | None:
    """`[nemo] config_file`, else `NHX_CONFIG_FILE_PATH`, else None: the runtime's defaults."""
    configured = conf.get(SECTION, "config_file", fallback="") or os.environ.get("NHX_CONFIG_FILE_PATH", "")
    return Path(configured).expanduser() if configured else None


def profiles() -> ProfileSet:
    """The profiles of the configuration file, whatever engines answer here.

    :raises ConfigError: it is broken
    """
    return load_profiles(config_file(), environ=os.environ, probe=None)


def probe_engines() -> bool:
    """Whether this process may ask engines if they are there: with LocalExecutor alone it stands where steps run."""
    mode = conf.get(SECTION, "probe_engines", fallback="auto").strip().lower()
    if mode in ("auto", ""):
        classes = executors.class_names(conf.get("core", "executor", fallback=""))
        return bool(classes) and executors.run_here(classes)
    return mode in ("true", "1", "yes", "on", "always")


def max_shapes() -> int:
    """`[nemo] max_shapes`: most job shapes stored at once.

    :raises ConfigError: not a whole number
    """
    with _told("max_shapes"):
        return int(conf.getint(SECTION, "max_shapes", fallback=500))


def sweep_seconds() -> int:
    """`[nemo] sweep_seconds`: between two runs of the DAG `nemo-sweep`; 0: only when it is triggered.

    :raises ConfigError: not a whole number, negative, or more than 30 days
    """
    with _told("sweep_seconds"):
        seconds = int(conf.getint(SECTION, "sweep_seconds", fallback=60))
    if not 0 <= seconds <= _MOST_SWEEP_SECONDS:
        raise ConfigError(f"[nemo] sweep_seconds: {seconds} is not between 0 and {_MOST_SWEEP_SECONDS}")
    return seconds


def task_log_max_lines() -> int:
    """`[nemo] task_log_max_lines`: first and last lines of a step that reach Airflow's task log.

    :raises ConfigError: not a whole number
    """
    with _told("task_log_max_lines"):
        return max(0, int(conf.getint(SECTION, "task_log_max_lines", fallback=TASK_LOG_MAX_LINES)))


def pause_hold_seconds() -> float:
    """`[nemo] pause_hold_seconds`: how long a paused step keeps its worker slot.

    :raises ConfigError: not a number
    """
    with _told("pause_hold_seconds"):
        return float(conf.getfloat(SECTION, "pause_hold_seconds", fallback=PAUSE_HOLD_SECONDS))


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Raise what Airflow says of an option's value as `ConfigError`."""
    try:
        yield
    except Exception as error:  # Airflow's own class for it lies in a private module
        raise ConfigError(f"[nemo] {name}: {' '.join(str(error).split())}") from error


def min_heartbeat_seconds() -> float:
    """`[workers] min_heartbeat_interval` of Airflow: within this it reads how a task's process has ended."""
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0))


def task_base_url() -> str:
    """Where a workload reaches the API: `[nemo] task_base_url`, else `[api] base_url`."""
    configured = conf.get(SECTION, "task_base_url", fallback="") or conf.get("api", "base_url", fallback="")
    return str(configured or "http://localhost:8080").rstrip("/")


def api_url() -> str:
    """Where a worker reaches the API server: where its tasks reach Airflow's own execution API, else as workloads."""
    url = str(conf.get("core", "execution_api_server_url", fallback="") or "").rstrip("/")
    return url.removesuffix("/execution") if url.endswith("/execution") else task_base_url()
