"""The environment of a container (job specification contract §5): pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from nemo_airflow_provider.backends.base import Environment
from nemo_airflow_provider.backends.reserved import managed_names
from nemo_airflow_provider.errors import StartError

CONFIG_FILE = "NEMO_JOB_STEP_CONFIG_FILE_PATH"
CONFIG_DIRECTORY = "NEMO_JOB_STEP_CONFIG_STORAGE_PATH"
SCRATCH = "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
JOB_STORAGE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"
#: NVIDIA's container runtime gives a container all GPUs of the host unless this says otherwise.
_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def compose(
    profile: Mapping[str, str],
    given: Environment,
    paths: Mapping[str, str],
    *,
    has_gpus: bool,
    loopback: str | None,
) -> dict[str, str]:
    """Everything that is added to the image's own environment.

    :param profile: the profile's `env`
    :param paths: the path variables; a step's own value of one of them has been taken into account
    :param loopback: what replaces a loopback host in the platform's URLs; None: it means the same in the container
    :raises StartError: a name that is the platform's, or none at all
    """
    if managed := managed_names(given.step):
        raise StartError(
            f"Job step environment keys must not use platform-reserved managed environment keys: {managed}"
        )
    platform = {name: _reachable(value, loopback) for name, value in given.platform.items()}
    composed = {
        **({} if has_gpus else {_VISIBLE_DEVICES: "void"}),
        **profile,
        **given.system,
        **given.principal,
        **given.step,
        **paths,
        **platform,
        **given.secrets,
    }
    for name, value in composed.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise StartError(
                f"Environment variable {name!r} cannot be given to a container: no name is empty or "
                "holds '=', and nothing holds a NUL character."
            )
    return composed


def _reachable(url: str, loopback: str | None) -> str:
    parts = urlsplit(url) if loopback and "://" in url else None
    if parts is None or parts.hostname not in _LOOPBACK:
        return url
    host = f"[{loopback}]" if loopback and ":" in loopback else loopback
    login, at, _ = parts.netloc.rpartition("@")
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit(parts._replace(netloc=f"{login}{at}{host}{port}"))
