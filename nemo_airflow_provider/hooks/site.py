"""What backends are told of this installation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nemo_airflow_provider.backends.base import Site
from nemo_airflow_provider.profiles import PlatformConfig, ProfileSet

#: Name of the default task image in `platform.image_registry` (configuration contract §8).
_TASK_IMAGE = "nhx-tasks"


def site_of(profiles: ProfileSet) -> Site:
    """What an installation is to the backends of its profiles."""
    return site_by(profiles.platform)


def site_by(platform: PlatformConfig) -> Site:
    """What an installation is by its `platform:` section, where its profiles are not known yet."""
    return Site(
        connect=_connect,
        default_task_image=f"{platform.image_registry}/{_TASK_IMAGE}:{platform.image_tag}",
        loopback_address=platform.loopback_address,
        gpu_device_ids=platform.docker.gpu_device_ids,
        image_pull_secrets=tuple(secret.name for secret in platform.image_pull_secrets),
    )


def _connect(kind: str, connection_id: str | None) -> Any:
    return import_module(f"nemo_airflow_provider.hooks.{kind}").connect(connection_id)
