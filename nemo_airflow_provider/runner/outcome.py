"""How a step ended, out of the last look at its workload: pure (texts of job specification contract §6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_airflow_provider.backends.base import Backend, Observation, Phase
from nemo_airflow_provider.errors import LostWorkload
from nemo_airflow_provider.model.status import Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a step.

    :param status: completed, error or cancelled; or paused, when its workload has ended for that
    :param message: for `status_details.message`
    :param details: more for `status_details`
    :param error: `error_details`; empty unless the status is error
    """

    status: Status
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)


#: Ends that neither the workload nor a person of ours chose.
_NOBODYS_WISH = {
    "signalled": "{noun} was ended from outside: its supervisor got a signal (host shutdown, or an administrator)",
    "orphaned": "{noun} was ended because its work directory was removed, or files of its supervisor were replaced",
}


def timed_out_while(limit: str, reason: str) -> Outcome:
    """A limit ran out while something was waited for.

    :param limit: its sentence, see `runner.limits`
    :param reason: what was waited for
    """
    message = f"{limit}: {reason}" if reason else limit
    return Outcome(Status.ERROR, message, error={"message": message, "reason": reason})


def outcome_of(
    seen: Observation,
    *,
    backend: Backend,
    engine: str,
    cancelled: bool,
    expired: str | None,
    paused: bool = False,
) -> Outcome:
    """Decide how the step ended. The exit code decides, logs never do.

    :param seen: the workload after its end
    :param backend: for its words
    :param cancelled: we stopped it because somebody asked
    :param expired: why we stopped it when a limit had run out, see `runner.limits`
    :param engine: the engine the workload was handed to, for the text of a lost one
    :param paused: we stopped it for a pause; one that ended by itself before it heard of that has ended
    """
    details = dict(seen.details)
    if seen.exit_code is not None:
        details["exit_code"] = seen.exit_code
    if expired is not None:
        return Outcome(Status.ERROR, expired, details, {"message": expired, **(seen.error or {})})
    if seen.phase in (Phase.ABSENT, Phase.LOST):
        if cancelled:
            return Outcome(Status.CANCELLED, f"{backend.noun} not found, job cancelled", details)
        if paused:
            return Outcome(Status.PAUSED, f"{backend.noun} not found, job paused", details)
        message = f"{(seen.message or backend.lost_text).rstrip('.')}; it was started on {engine}"
        return Outcome(
            Status.ERROR,
            message,
            details,
            {"message": message, "reason": LostWorkload.code, **(seen.error or {})},
        )
    code = "" if seen.exit_code is None else f" with exit code {seen.exit_code}"
    if cancelled:
        return Outcome(Status.CANCELLED, f"Job was cancelled{code}", details)
    if paused and seen.stopped == "asked":
        return Outcome(Status.PAUSED, f"Job paused{code}", details)
    if seen.stopped in _NOBODYS_WISH:
        message = _NOBODYS_WISH[seen.stopped].format(noun=backend.noun)
        return Outcome(Status.ERROR, message, details, {"message": message, "fault": "platform"})
    if seen.exit_code == 0 and seen.stopped != "interrupted":
        message = seen.message or "Job completed successfully with exit code 0"
        return Outcome(Status.COMPLETED, message, details)
    message = seen.message or f"Job exited with code {seen.exit_code}"
    error = {"message": message, "fault": seen.fault, **(seen.error or {})}
    return Outcome(
        Status.ERROR, message, details, error if seen.exit_code is None else {**error, "exit_code": seen.exit_code}
    )
