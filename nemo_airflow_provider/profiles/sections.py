"""Shape of the `jobs:` section and of one entry of its `executors` (configuration contract §2 and §3).

Only the outer shape: the `config:` of an entry is its backend's own, and checked against the backend's class.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from nemo_airflow_provider.backends.config import StrictModel


class JobsSection(StrictModel):
    """`jobs:`."""

    #: Keys accepted for files shared with upstream that change nothing here.
    without_effect: ClassVar[frozenset[str]] = frozenset(
        {"reconcile_interval_seconds", "schedule_interval_seconds", "include_job_logs_in_diagnostics"}
    )
    unsupported: ClassVar[frozenset[str]] = frozenset()

    executors: list[Any] = Field(
        default_factory=list,
        description="Profiles, beside the built-in ones or in their place. The variable `NHX_JOBS_EXECUTORS` "
        "(a JSON list) replaces the list.",
    )
    executor_defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="By backend: `config` of the built-in profiles. Other profiles do not inherit it.",
    )
    enable_subprocess_executor: bool | None = Field(
        default=None,
        description="Whether there is a built-in `subprocess/default`; without a value, on every runtime but "
        "`kubernetes`. The variable `NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR` wins over the file.",
    )
    reconcile_interval_seconds: int = Field(default=2, description="Accepted without effect.")
    schedule_interval_seconds: int = Field(default=5, description="Accepted without effect.")
    include_job_logs_in_diagnostics: bool = Field(default=False, description="Accepted without effect.")


class ProfileEntry(StrictModel):
    """One item of `jobs.executors`."""

    provider: str | None = Field(
        default=None,
        min_length=1,
        description="What a step asks for: `cpu`, `gpu`, `gpu_distributed` or `subprocess`; without a value, "
        "the first that the backend takes.",
    )
    profile: str = Field(default="default", min_length=1, description="Name of the profile.")
    backend: str | None = Field(
        default=None, description="What runs the steps; without a value, and with a `config`: `docker`."
    )
    config: dict[str, Any] | None = Field(default=None, description="Keys of the backend.")
