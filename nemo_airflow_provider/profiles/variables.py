"""Environment variables that stand over, or under, keys of the file (configuration contract §2, §5.1, §8).

A variable that is set and blank counts as not set, except for the GPU list, where blank means no GPU. Every
complaint names the variable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from nemo_airflow_provider.backends.config import BackendConfig
from nemo_airflow_provider.profiles.platform import PlatformConfig
from nemo_airflow_provider.profiles.sections import JobsSection
from nemo_airflow_provider.profiles.source import KeyPath, Place
from nemo_airflow_provider.profiles.strict import near_name, validate

_JOBS_KEYS = {
    "NHX_JOBS_RECONCILE_INTERVAL_SECONDS": "reconcile_interval_seconds",
    "NHX_JOBS_SCHEDULE_INTERVAL_SECONDS": "schedule_interval_seconds",
    "NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR": "enable_subprocess_executor",
    "NHX_JOBS_INCLUDE_JOB_LOGS_IN_DIAGNOSTICS": "include_job_logs_in_diagnostics",
}
_EXECUTORS = "NHX_JOBS_EXECUTORS"
_GPU_IDS = "NHX_DOCKER_RESERVED_GPU_DEVICE_IDS"
_LOOPBACK = "NHX_LOOPBACK_ADDRESS"
_UNREAD_PREFIX = "NHX_JOBS_EXECUTOR_DEFAULTS_"
#: What the reference page says about each variable.
DESCRIPTIONS = {
    "NHX_CONFIG_FILE_PATH": "Path of the file, where the option `[nemo] config_file` is not set.",
    _EXECUTORS: "A JSON list that replaces `jobs.executors`.",
    "NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR": "Wins over `jobs.enable_subprocess_executor`.",
    "NHX_JOBS_RECONCILE_INTERVAL_SECONDS": "Accepted without effect.",
    "NHX_JOBS_SCHEDULE_INTERVAL_SECONDS": "Accepted without effect.",
    "NHX_JOBS_INCLUDE_JOB_LOGS_IN_DIAGNOSTICS": "Accepted without effect.",
    _GPU_IDS: "`platform.docker.reserved_gpu_device_ids`, where the file has no value; blank means `none`.",
    _LOOPBACK: "Wins over `platform.loopback_address`.",
}
_WITHOUT_EFFECT = tuple(variable for variable, key in _JOBS_KEYS.items() if key in JobsSection.without_effect)


def relevant(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that can change the configuration."""
    return {name: value for name, value in environ.items() if name.startswith(("NHX_", "NEMO_JOBS_"))}


def without_effect(environ: Mapping[str, str]) -> list[str]:
    """Variables that are set, known to upstream, and change nothing here."""
    return [name for name in _WITHOUT_EFFECT if environ.get(name, "").strip()]


def unread(environ: Mapping[str, str]) -> list[str]:
    """Warnings about variables that somebody may believe in."""
    return [f"{name}: {reason}" for name in sorted(environ) if (reason := _why_unread(name))]


def _why_unread(name: str) -> str:
    if name.startswith(_UNREAD_PREFIX):
        return "ignored; write 'executor_defaults' in the configuration file instead"
    if not name.startswith("NHX_JOBS_") or name in DESCRIPTIONS:
        return ""
    # Only of what is near: others of this prefix are upstream's own, or of its client.
    near = near_name(name, DESCRIPTIONS, cutoff=0.9)
    return f"unknown variable, ignored{near}" if near else ""


def jobs(data: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """`jobs:` with the variables over it; `executors` is left to `executors()`."""
    merged = dict(data)
    for variable, key in _JOBS_KEYS.items():
        merged = laid_over(merged, _read(JobsSection, variable, (key,), environ, problems))
    return merged


def executors(environ: Mapping[str, str], problems: list[str]) -> tuple[object, Place] | None:
    """The list that replaces `jobs.executors`, and its place; None when the variable is not set."""
    text = environ.get(_EXECUTORS, "")
    if not text.strip():
        return None
    place = Place(_EXECUTORS)
    try:
        items = json.loads(text)
    except ValueError as error:
        problems.append(f"{place}: not JSON: {error}")
        return [], place
    if not isinstance(items, list):
        problems.append(f"{place}: must be a JSON list of profile entries")
    return items, place


def platform(data: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """`platform:` with one variable over it, and one that counts only where the file has no value."""
    gpu_path = ("docker", "reserved_gpu_device_ids")
    beneath = _read(PlatformConfig, _GPU_IDS, gpu_path, environ, problems, blank_counts=True)
    above = _read(PlatformConfig, _LOOPBACK, ("loopback_address",), environ, problems)
    return laid_over(laid_over(beneath, data), above)


def defaults(config: type[BackendConfig], environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Keys of a backend's config whose defaults the environment replaces."""
    found: dict[str, Any] = {}
    for variable, path in config.environment_defaults.items():
        found = laid_over(found, _read(config, variable, path, environ, problems))
    return found


def laid_over(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge of mappings: what is above wins, except a null over a value."""
    merged = dict(beneath)
    for key, value in above.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = laid_over(mine, value)
        elif value is not None or key not in merged:
            merged[key] = value
    return merged


def _read(
    model: type[BaseModel],
    variable: str,
    path: KeyPath,
    environ: Mapping[str, str],
    problems: list[str],
    *,
    blank_counts: bool = False,
) -> dict[str, Any]:
    """`{key: {key: value}}` of a variable; empty when it is not set or its value is bad."""
    text = environ.get(variable)
    if text is None or not (blank_counts or text.strip()):
        return {}
    data: Any = text.strip()
    for key in reversed(path):
        data = {key: data}
    return data if validate(model, data, Place(variable), problems) else {}
