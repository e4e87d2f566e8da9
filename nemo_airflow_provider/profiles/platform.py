"""The keys of the `platform:` section that matter for jobs (configuration contract §8).

The file may be shared with upstream, so the section's other keys are left alone.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nemo_airflow_provider.backends.config import ImagePullSecret

_GPU_IDS = re.compile(r"\d+( *, *\d+)*", re.ASCII)
_SANDBOX = frozenset(
    {
        "sandbox_cluster_capable",
        "sandbox_server_domain",
        "sandbox_api_key_secret",
        "sandbox_api_key_secret_key",
    }
)


class _Shared(BaseModel):
    """A mapping in which upstream has more keys than we read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class DockerPlatform(_Shared):
    """`platform.docker`."""

    reserved_gpu_device_ids: str = Field(
        default="all",
        description='GPUs of the host that jobs may use: `all`, `none`, or numbers such as `"0,1"`. The '
        "variable `NHX_DOCKER_RESERVED_GPU_DEVICE_IDS` counts when the file has no value.",
        json_schema_extra={"type": ["string", "null"], "pattern": r"^\s*(|all|none|\d+( *, *\d+)*)\s*$"},
    )

    @field_validator("reserved_gpu_device_ids", mode="before")
    @classmethod
    def _a_string_of_numbers(cls, value: Any) -> str:
        if value is None:
            return "all"
        if not isinstance(value, str):
            raise ValueError(
                "reserved_gpu_device_ids must be a string. Use 'all', 'none', or comma-separated integers "
                "in quotes, such as '0,1'."
            )
        ids = value.strip()
        if ids not in ("", "all", "none") and not _GPU_IDS.fullmatch(ids):
            raise ValueError(
                f"reserved_gpu_device_ids must be 'all', 'none', or comma-separated integers, got: {value!r}"
            )
        return ids

    @property
    def gpu_device_ids(self) -> tuple[int, ...] | None:
        """Device ids that jobs may use; None means every GPU that the host has."""
        if self.reserved_gpu_device_ids == "all":
            return None
        return tuple(dict.fromkeys(map(int, re.findall(r"\d+", self.reserved_gpu_device_ids))))


class PlatformConfig(_Shared):
    """`platform:`, as far as it matters for jobs."""

    #: Keys accepted for files shared with upstream that change nothing here.
    without_effect: ClassVar[frozenset[str]] = _SANDBOX | {"base_url", "service_discovery"}
    #: Those of them whose absence a workload can feel: setting one gives a warning.
    unsupported: ClassVar[frozenset[str]] = _SANDBOX

    runtime: Literal["kubernetes", "docker", "none"] = Field(
        default="docker",
        description="Decides the built-in profiles. `docker` counts as `none` when it does not answer.",
    )
    loopback_address: str | None = Field(
        default=None,
        min_length=1,
        description="Replaces a loopback host in URLs handed to containers. The variable "
        "`NHX_LOOPBACK_ADDRESS` wins over the file.",
    )
    image_registry: str = Field(default="my-registry", min_length=1, description="Registry of the default task image.")
    image_tag: str = Field(default="local", min_length=1, description="Tag of the default task image.")
    image_pull_secrets: list[ImagePullSecret] = Field(default_factory=list, description="Pull secrets of every pod.")
    docker: DockerPlatform = Field(default_factory=DockerPlatform, description="The host's engine.")
