"""Profile keys of the subprocess backend: a process on the worker's host (configuration contract §5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import ClassVar

from pydantic import Field, field_validator

from nemo_airflow_provider.backends.config import BackendConfig, ProfileKey


class SubprocessConfig(BackendConfig):
    """`config:` of a subprocess profile."""

    config_required: ClassVar[bool] = False
    runs_as_worker: ClassVar[bool] = True

    working_directory: str = Field(
        default="/tmp/nhx-subprocess-jobs",
        description="Root of the working directories, an absolute path; made when it does not exist.",
        json_schema_extra={"pattern": "^/"},
    )
    graceful_shutdown_timeout_seconds: int = Field(
        default=10, ge=0, description="Seconds between SIGTERM and SIGKILL of the process group."
    )
    cleanup_completed_jobs_immediately: bool = Field(
        default=False, description="Remove the working directories of successful steps at once."
    )

    @field_validator("working_directory")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePath(value).is_absolute():
            raise ValueError(f"must be an absolute path, got {value!r}: workers do not share a current directory")
        return value

    @classmethod
    def built_in_profiles(cls, runtime: str, switches: Mapping[str, bool | None]) -> tuple[ProfileKey, ...]:
        """On every runtime but Kubernetes, unless `jobs.enable_subprocess_executor` says otherwise."""
        wanted = switches.get("enable_subprocess_executor")
        if wanted is None:
            wanted = runtime != "kubernetes"
        return (("subprocess", "default"),) if wanted else ()

    @property
    def is_bound_to_host(self) -> bool:
        """Its process is there."""
        return True

    def supports_persistent_storage(self) -> bool:
        """A directory of the job beside its working directories."""
        return True
