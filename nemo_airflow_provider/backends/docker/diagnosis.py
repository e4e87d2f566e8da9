"""What the engine says of a container → how its task stands, and why it ended, in one sentence: pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.errors import Fault

#: Exit codes of a shell, or of the container's init process, for a command that a signal ended.
_SIGNALLED = 128
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
#: The engine's time of what has not happened.
_NEVER = "0001-01-01"


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
        return Observation(
            Phase.ABSENT, details=details
        )  # it is being removed, with the exit code 0 of all that is new
    code = int(state["ExitCode"])
    if code == 0:
        return Observation(Phase.ENDED, exit_code=0, stopped=stopped, details=details)
    message, error, fault = _failure(code, state, container.get("HostConfig") or {})
    return Observation(
        Phase.ENDED,
        exit_code=code,
        stopped=stopped,
        message=message,
        details=details,
        error=error,
        fault=fault,
    )


def _failure(code: int, state: Mapping[str, Any], host: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None, Fault]:
    head = f"Job exited with non-zero code {code}"
    if state.get("OOMKilled"):
        limit = int(host.get("Memory") or 0)
        where = f"at its memory limit of {_size(limit)}" if limit else "when the host had no memory left"
        return f"{head}: the kernel killed it {where}", {"reason": "OOMKilled"}, "user"
    if words := " ".join(str(state.get("Error") or "").split()):
        return f"{head}: {words}", {"reason": "EngineError", "error": words}, "platform"
    if code == _NOT_FOUND:
        return f"{head}: its command was not found in the image, check logs for details.", None, "user"
    if code == _NOT_EXECUTABLE:
        return f"{head}: its command cannot be executed, check logs for details.", None, "user"
    if name := _signal_name(code - _SIGNALLED):
        return f"{head}: it was ended by {name}, check logs for details.", {"signal": name}, "user"
    return f"{head}, check logs for details.", None, "user"


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _size(number: int) -> str:
    for suffix, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if number % factor == 0:
            return f"{number // factor}{suffix}"
    return f"{number} bytes"
