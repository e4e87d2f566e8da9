"""Names of environment variables that belong to the platform (configuration contract §4)."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic.config import JsonDict

#: Set by the platform in every task.
RESERVED = frozenset(
    {
        "NEMO_JOB_ID",
        "NEMO_JOB_ATTEMPT_ID",
        "NEMO_JOB_STEP",
        "NEMO_JOB_TASK",
        "NEMO_JOB_WORKSPACE",
        "NEMO_JOB_FILESET",
        "NEMO_JOB_SECRETS",
        "NEMO_JOB_STEP_CONFIG_FILE_PATH",
        "NEMO_JOB_STEP_CONFIG_STORAGE_PATH",
        "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH",
        "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH",
        "NHX_TASK_CONFIG",
        "NHX_PRINCIPAL",
        "NHX_WORKLOAD_IDENTITY_TOKEN_FILE",
        "NHX_JOB_LOGS_ENDPOINT",
        "NHX_CONFIG_WARNINGS_DISABLED",
        "NHX_BASE_URL",
        "NHX_AUTH_URL",
        "NHX_JOBS_URL",
        "NHX_FILES_URL",
        "NHX_MODELS_URL",
        "NHX_SECRETS_URL",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        "OTEL_LOGS_EXPORTER",
        "OTEL_SERVICE_NAME",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    }
)

_MANAGED = frozenset({"NHX_ACCESS_TOKEN", "NEMO_WORKLOAD_TOKEN", "NEMO_WORKLOAD_TOKEN_FILE"})
_MANAGED_PREFIXES = ("NEMO_WORKLOAD_", "NHX_WORKLOAD_", "NEMO_WORKFLOW_", "NHX_WORKFLOW_")

#: JSON schema of all these names.
PLATFORM_NAMES_SCHEMA: JsonDict = {
    "anyOf": [
        {"enum": [*sorted(RESERVED), *sorted(_MANAGED)]},
        {"pattern": f"^({'|'.join(_MANAGED_PREFIXES)})"},
    ]
}


def reserved_names(names: Iterable[str]) -> list[str]:
    """Those of `names` that the platform sets itself, sorted."""
    return sorted(RESERVED.intersection(names))


def managed_names(names: Iterable[str]) -> list[str]:
    """Those of `names` that carry credentials of the platform, sorted."""
    return sorted({name for name in names if name in _MANAGED or name.startswith(_MANAGED_PREFIXES)})
