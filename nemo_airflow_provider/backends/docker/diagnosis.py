"""What the engine says of a container → how its task stands, and why it ended, in one sentence: pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.backends.container import exits
from nemo_airflow_provider.errors import Fault

#: Message, more of the error, and whose fault it is.
_Failure = tuple[str, dict[str, Any] | None, Fault]

#: The engine's time of what has not happened.
_NEVER = "0001-01-01"
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z")
#: Exit codes of what was killed, or told to end and did not listen; the last is what nobody saw the end of.
_KILLED = (137, 143, 255)
#: How long an engine may take from the end of its containers to its own, and to its next start.
_STOPPING = timedelta(seconds=30)
#: Containers that outlived a crash are ended before the default network is made, by nearly the same clock.
_RESTORING = timedelta(seconds=5)


def observed(container: Mapping[str, Any], stopped: StopReason | None) -> Observation:
    """One look at a container.

    :param container: the engine's answer to "inspect"
    :param stopped: why we ended it, if we asked for that before it had ended
    """
    state = container["State"]
    details = {"container_id": container["Id"][:12], "container_name": str(container.get("Name", "")).lstrip("/")}
    if state["Status"] == "created":
        return Observation(Phase.PENDING, details=details)
    if state.get("Running") or state["Status"] in ("running", "paused", "restarting"):
        return Observation(Phase.RUNNING, details=details, frozen=bool(state.get("Paused")))
    if str(state.get("StartedAt", "")).startswith(_NEVER):
        # It is being removed, with the exit code 0 of all that is new.
        return Observation(Phase.ABSENT, details=details)
    code = int(state["ExitCode"])
    if code == 0 and stopped != "interrupted":
        return Observation(Phase.ENDED, exit_code=0, stopped=stopped, details=details)
    message, error, fault = (
        _interruption(code) if stopped == "interrupted" else _failure(code, state, container.get("HostConfig") or {})
    )
    return Observation(
        Phase.ENDED,
        exit_code=code,
        stopped=stopped,
        message=message,
        details=details,
        error=error,
        fault=fault,
    )


def interrupted(
    container: Mapping[str, Any], engine_began_at: datetime | None, keeps_containers: Callable[[], bool]
) -> bool:
    """Whether a container that has ended was ended by its engine, which ends all of them when it is stopped, or when it
    comes back after a crash.

    :param engine_began_at: when the engine was last started without containers of before; None: nobody knows
    :param keeps_containers: whether the engine leaves them alone when it is stopped ("live restore"); asked last
    """
    state = container["State"]
    started_at, ended_at = _moment(state.get("StartedAt")), _moment(state.get("FinishedAt"))
    if engine_began_at is None or started_at is None or ended_at is None or state.get("OOMKilled"):
        return False
    if not started_at < engine_began_at or ended_at > engine_began_at + _RESTORING:
        return False
    if int(state["ExitCode"]) in _KILLED:
        # However long ago: a host that was switched off for a night began with that.
        return True
    # One that ends in its own way when it is told to may have any code, also that of success.
    return engine_began_at - ended_at <= _STOPPING and not keeps_containers()


def _moment(text: object) -> datetime | None:
    """A time of the engine, to the microsecond."""
    match = _TIME.match(str(text))
    if match is None or match[1].startswith(_NEVER):
        return None
    fraction = (match[2] or "").ljust(6, "0")[:6]
    return datetime.strptime(f"{match[1]}.{fraction}", "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC)


def began_at(network: Mapping[str, Any] | None) -> datetime | None:
    """When the engine was last started without containers of before: it makes its default network then.

    :param network: the engine's answer to "inspect" of the network `bridge`; None: it has none
    """
    return None if network is None else _moment(network.get("Created"))


def _interruption(code: int) -> _Failure:
    text = f"The Docker engine was stopped, or started anew, while the job ran; its exit code was {code}"
    return text, {"reason": "EngineStopped"}, "platform"


def _failure(code: int, state: Mapping[str, Any], host: Mapping[str, Any]) -> _Failure:
    head = exits.head(code)
    if state.get("OOMKilled"):
        limit = int(host.get("Memory") or 0)
        where = f"at its memory limit of {_size(limit)}" if limit else "when the host had no memory left"
        return f"{head}: the kernel killed it {where}", {"reason": "OOMKilled"}, "user"
    if words := " ".join(str(state.get("Error") or "").split()):
        return f"{head}: {words}", {"reason": "EngineError", "error": words}, "platform"
    return *exits.failure_of(code), "user"


def _size(number: int) -> str:
    for suffix, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if number % factor == 0:
            return f"{number // factor}{suffix}"
    return f"{number} bytes"
