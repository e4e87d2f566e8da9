"""Options of Airflow's `[nemo]` section, read when asked for so that the environment can change them in tests."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.configuration import conf

from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model import names

SECTION = "nemo"


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


def probe_engines() -> bool:
    """Whether this process may ask engines if they are there: with LocalExecutor it stands where steps run."""
    mode = conf.get(SECTION, "probe_engines", fallback="auto").strip().lower()
    if mode in ("auto", ""):
        return bool(re.search(r"\bLocalExecutor\b", conf.get("core", "executor", fallback="")))
    return mode in ("true", "1", "yes", "on", "always")


def max_shapes() -> int:
    """`[nemo] max_shapes`: most job shapes stored at once."""
    return int(conf.getint(SECTION, "max_shapes", fallback=500))


def task_log_max_lines() -> int:
    """`[nemo] task_log_max_lines`: first and last lines of a step that reach Airflow's task log."""
    return int(conf.getint(SECTION, "task_log_max_lines", fallback=5000))


def pause_hold_seconds() -> float:
    """`[nemo] pause_hold_seconds`: how long a paused step keeps its worker slot."""
    return float(conf.getfloat(SECTION, "pause_hold_seconds", fallback=10.0))


def min_heartbeat_seconds() -> float:
    """`[workers] min_heartbeat_interval` of Airflow: within this it reads how a task's process has ended."""
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0))


def task_base_url() -> str:
    """Where a workload reaches the API: `[nemo] task_base_url`, else `[api] base_url`."""
    configured = conf.get(SECTION, "task_base_url", fallback="") or conf.get("api", "base_url", fallback="")
    return str(configured or "http://localhost:8080").rstrip("/")
