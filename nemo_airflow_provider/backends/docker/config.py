"""Profile keys of the Docker backend: a container on the worker's host (configuration contract §5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from nemo_airflow_provider.backends.config import ContainerConfig, ProfileKey, StrictModel


class DockerVolumeMount(StrictModel):
    """One volume beside those that every task gets."""

    volume_name: str = Field(min_length=1, description="Name of the Docker volume.")
    mount_path: str = Field(min_length=1, description="Where the task sees it.")
    kind: Literal["volume", "tmpfs"] = Field(
        default="volume", description="A named volume, or memory that is gone with the container."
    )
    options: dict[str, Any] | None = Field(default=None, description="Options, passed to Docker.")
    allow_create_volume: bool = Field(
        default=False, description="Make the volume when it does not exist; else the step fails."
    )


class DockerStorage(StrictModel):
    """Volumes of Docker tasks."""

    volume_name: str = Field(
        default="nemo-jobs-storage",
        description="Volume of persistent job storage; empty switches persistent storage off.",
    )
    volume_permissions_image: str = Field(
        default="busybox:1.37",
        min_length=1,
        description="Image of the container that removes job storage; it has `rm`.",
    )
    additional_volume_mounts: list[DockerVolumeMount] = Field(
        default_factory=list, description="More volumes for every task."
    )


class DockerNetworking(StrictModel):
    """Network of Docker tasks."""

    job_container_network: str = Field(
        default="host",
        min_length=1,
        description="Docker network of the tasks. The variable `NEMO_JOBS_DEFAULT_DOCKER_NETWORK` replaces "
        "the default.",
    )


class DockerConfig(ContainerConfig):
    """`config:` of a Docker profile."""

    local_engine: ClassVar[str | None] = "Docker"
    built_in: ClassVar[Mapping[str, tuple[ProfileKey, ...]]] = {
        "docker": (("cpu", "default"), ("gpu", "default")),
    }
    environment_defaults: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "NEMO_JOBS_DEFAULT_DOCKER_NETWORK": ("networking", "job_container_network"),
        "NEMO_JOBS_DEFAULT_DOCKER_STOP_TIMEOUT": ("graceful_shutdown_timeout_seconds",),
    }

    docker_conn_id: str | None = Field(
        default=None,
        min_length=1,
        description="Airflow connection of the engine; else the host's own.",
    )
    storage: DockerStorage = Field(default_factory=DockerStorage, description="Volumes.")
    networking: DockerNetworking = Field(default_factory=DockerNetworking, description="Network.")

    @property
    def is_bound_to_host(self) -> bool:
        """Unless a connection names an engine that every worker reaches."""
        return self.docker_conn_id is None

    def supports_persistent_storage(self) -> bool:
        """When a volume is named for it."""
        return self.storage.volume_name != ""
