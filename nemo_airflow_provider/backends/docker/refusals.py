"""What it means to a step that the engine does not make or start its container, by the engine's words: pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nemo_airflow_provider.backends.docker.engine import refusal
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError

if TYPE_CHECKING:
    from docker.errors import APIError

#: Words of the kernel, passed on by the engine: there may be room later.
_NO_ROOM = (
    "no space left on device",
    "cannot allocate memory",
    "resource temporarily unavailable",
    "too many open files",
    "disk quota exceeded",
)
#: What no further try mends, though the engine calls it an error of its own.
_WRONG = (
    "could not select device driver",
    "unable to find user",
    "unknown runtime",
    "no such file or directory",
    "not a directory",
    "is not directory",
    "argument list too long",
    "permission denied",
    "executable file not found",
    "null(",
)
#: What to do about some words of the engine.
_REMEDIES = {
    r"network \S+ not found": "Make it with `docker network create`, or name another in "
    "networking.job_container_network of the step's profile.",
    "could not select device driver": "Install NVIDIA's container toolkit on the engine's host, and start the engine "
    "again.",
    "is not directory|(lstat|mount) .*not a directory": "The image has a file where a path variable of the step, or a "
    "volume of its profile, wants a directory.",
    "minimum memory limit": "Raise limits.memory of the step's resources, or of its profile.",
    "argument list too long": "The step's environment and command are together longer than the kernel takes.",
}
#: Where the host has a layer or a volume, which is nobody's business who makes jobs.
_HOSTS_PATH = re.compile(r"(?:/[^/\s\"':]+)*/(?:[0-9a-f]{64}(?:/(?:merged|_data)\b)?|volumes/[^/\s\"']+/_data\b)")


def judged(error: APIError, verb: str) -> BackendError:
    """What a refusal means to the step.

    :param verb: what was refused: `create` or `start`
    """
    words = _HOSTS_PATH.sub("…", refusal(error))
    text = f"Failed to {verb} container: {words}"
    if any(each in words.lower() for each in _NO_ROOM):
        return CapacityError(text)
    if error.status_code in (400, 404) or any(each in words.lower() for each in _WRONG):
        remedy = next((advice for seen, advice in _REMEDIES.items() if re.search(seen, words, re.IGNORECASE)), None)
        return StartError(f"{text}. {remedy}" if remedy else text, detail=words)
    return BackendError(text)
