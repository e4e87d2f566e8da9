"""The groups of a task's environment (job specification contract §5); backends put them in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from nemo_airflow_provider.backends.base import Environment
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.runner.task import StepTask

_SERVICES = ("JOBS", "FILES", "MODELS", "SECRETS")


def environment_of(task: StepTask, key: WorkloadKey, attempt_number: int, secrets: Mapping[str, str]) -> Environment:
    """What the step's workload finds in its environment, before the profile and the host add theirs.

    :param attempt_number: the attempt the generation began in
    :param secrets: values of the step's secrets by environment variable
    """
    system = {
        "NEMO_JOB_ID": task.job_name,
        "NEMO_JOB_ATTEMPT_ID": names.attempt_id(task.run_key, attempt_number),
        "NEMO_JOB_STEP": task.step.name,
        "NEMO_JOB_TASK": key.task,
        "NEMO_JOB_WORKSPACE": task.workspace,
        "NEMO_JOB_FILESET": names.fileset_name(task.job_name, task.job.output_location),
        "NEMO_JOB_SECRETS": ",".join(f"{item.variable}={item.secret}" for item in task.secrets),
    }
    step = {item.name: item.value for item in task.step.environment or [] if item.value is not None}
    base = _named_loopback(task.base_url)
    platform = {
        "NHX_BASE_URL": base,
        **{f"NHX_{service}_URL": base for service in _SERVICES},
        "NHX_CONFIG_WARNINGS_DISABLED": "1",
    }
    principal = {"NHX_PRINCIPAL": json.dumps({"principal_id": task.user})} if task.user else {}
    return Environment(system=system, step=step, platform=platform, principal=principal, secrets=secrets)


def _named_loopback(url: str) -> str:
    """Loopback addresses by name, as the contract has it."""
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "::1", "0.0.0.0"):
        return url
    netloc = f"localhost:{parts.port}" if parts.port else "localhost"
    return urlunsplit(parts._replace(netloc=netloc))
