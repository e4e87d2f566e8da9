"""The environment of a container (job specification contract §5), and what it and a command can hold: pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from nemo_airflow_provider.backends.base import Environment
from nemo_airflow_provider.backends.reserved import managed_names
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model.spec import Container

CONFIG_FILE = "NEMO_JOB_STEP_CONFIG_FILE_PATH"
CONFIG_DIRECTORY = "NEMO_JOB_STEP_CONFIG_STORAGE_PATH"
SCRATCH = "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
JOB_STORAGE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"

#: The kernel's `MAX_ARG_STRLEN`, of which the last byte is a NUL. The container would run, and end at once with code 1.
_MOST_BYTES = 128 * 1024 - 1
#: How much of a name is shown.
_SHOWN = 100
_TOO_LONG = "is longer than 128 KiB, the kernel's limit for one. Hand it over as a file, such as the step's config."


def compose(
    profile: Mapping[str, str],
    given: Environment,
    paths: Mapping[str, str],
    *,
    loopback: str | None,
    step_over_platform: bool = False,
) -> dict[str, str]:
    """Everything that is added to the image's own environment.

    :param profile: the profile's `env`
    :param paths: the path variables, which nothing changes any more; a step's own value of one of them has been
        taken into account
    :param loopback: what replaces a loopback host in the platform's URLs; None: it means the same in the container
    :param step_over_platform: whether a step's own items win over the platform's, as they do in pods
    :raises StartError: a name that is the platform's, or none at all; a value that no process can have
    """
    if managed := managed_names((*given.step, *given.secrets)):
        raise StartError(
            f"Job step environment keys must not use platform-reserved managed environment keys: {managed}"
        )
    platform = {name: _reachable(value, loopback) for name, value in given.platform.items()}
    last = (platform, given.step) if step_over_platform else (given.step, platform)
    composed = {**profile, **given.system, **given.principal, **last[0], **last[1], **given.secrets, **paths}
    for name, value in composed.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise StartError(
                f"Environment variable {name!r} cannot be given to a container: no name is empty or "
                "holds '=', and nothing holds a NUL character."
            )
        if _is_too_long(f"{name}={value}"):
            raise StartError(f"Environment variable {name[:_SHOWN]} {_TOO_LONG}")
    return composed


def check_words(container: Container) -> None:
    """What no command can hold is refused.

    :raises StartError: a word of entrypoint or command that is too long, or has a NUL character
    """
    for what, words in (("entrypoint", container.entrypoint), ("command", container.command)):
        for number, word in enumerate(words, start=1):
            if "\0" in word:
                raise StartError(f"Word {number} of the step's {what} holds a NUL character, which no command can.")
            if _is_too_long(word):
                raise StartError(f"Word {number} of the step's {what} {_TOO_LONG}")


def _is_too_long(text: str) -> bool:
    return len(text.encode(errors="replace")) > _MOST_BYTES


def _reachable(url: str, loopback: str | None) -> str:
    if loopback is None or "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # such as a bracket that is not closed: nobody reaches that
        return url
    if not is_loopback(host):
        return url
    login, at, address = parts.netloc.rpartition("@")
    _, colon, port = address.rpartition("]")[2].partition(":")
    inside = f"[{loopback}]" if ":" in loopback else loopback
    return urlunsplit(parts._replace(netloc=f"{login}{at}{inside}{colon}{port}"))


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means whoever asks for it."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761
    return address.is_loopback or address.is_unspecified
