"""How a pod's main container ended, and whose fault that is: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.backends.base import StopReason
from nemo_airflow_provider.backends.container import exits
from nemo_airflow_provider.backends.kube import reading
from nemo_airflow_provider.backends.kube.causes import Cause, precedes
from nemo_airflow_provider.backends.kube.podview import Container, PodView
from nemo_airflow_provider.errors import Fault

_KILLED = 137
_MOST_BYTES = 1024
_NOT_STARTED = ("StartError", "ContainerCannotRun")
#: A node says so of a container it cannot find: one that never began, or that was there before the node came back.
_UNKNOWN = "ContainerStatusUnknown"
#: Before the words that matter in what a runtime says.
_RUNTIME = re.compile(r"^.*unable to start container process: (?:error during container init: )?")
#: What a runtime fails by, whatever it is asked to start.
_RUNTIME_FAULT = re.compile(
    r"nvidia-container|deadline exceeded|no space left on device|cannot allocate memory|too many open files"
)
#: What a node refuses for what the pod asks, not for what the node has.
_ASKED_WRONG = (
    "AppArmor",
    "SysctlForbidden",
    "PodOSNotSupported",
    "ProcMountNotSupported",
    "UserNamespacesNotSupported",
)

#: Reason of an end before the task began; `container` beside it says whose.
INIT_FAILED = "InitContainerFailed"


@dataclass(frozen=True, slots=True)
class End:
    """How a workload ended: see `Observation`."""

    exit_code: int | None
    message: str | None = None
    error: Mapping[str, Any] | None = None
    fault: Fault = "user"
    stopped: StopReason | None = None


def end_of(pod: PodView, cause: Cause | None) -> End:
    """The end of a pod whose main container has ended, or which has ended as a whole.

    :param cause: what ended it from outside, if something did
    """
    if not pod.main.ended:
        return _without_main(pod, cause)
    if cause is not None and precedes(cause, pod.main.finished_at):
        return _from_outside(pod.main, cause)
    return _by_itself(pod)


def from_cause(cause: Cause, exit_code: int | None = None) -> End:
    """An end that was made from outside; a success that was told to end is none."""
    stopped = cause.stopped or ("interrupted" if exit_code == 0 else None)
    return End(exit_code, cause.text, {"reason": cause.reason}, cause.fault, stopped)


def _from_outside(main: Container, cause: Cause) -> End:
    code = None if main.reason == _UNKNOWN else main.exit_code
    if cause.stopped != "asked":
        return from_cause(cause, code)
    if not code:
        return End(code, stopped="asked")
    message, error = exits.failure_of(code)
    return End(code, message, error, stopped="asked")


def _by_itself(pod: PodView) -> End:
    main = pod.main
    code = main.exit_code
    if main.reason == _UNKNOWN or code is None:
        text = f"Nobody saw how the container ended: {main.message or 'its node does not say'}"
        return End(None, text, {"reason": main.reason or _UNKNOWN}, "platform")
    if code == 0:
        return End(0)
    if main.reason in _NOT_STARTED:
        return _not_started(code, main)
    if main.reason == "OOMKilled" or (code == _KILLED and reading.text(main.before, "reason") == "OOMKilled"):
        return _out_of_memory(code, pod)
    message, error = exits.failure_of(code)
    told = reading.value(main.body, "message")
    if not isinstance(told, str) or not told.strip():
        return End(code, message, error)
    if reading.text(pod.main_spec(), "terminationMessagePolicy") != "FallbackToLogsOnError":
        # Somebody wrote it on purpose; else it may be the end of the log, which is shown anyway.
        message = f"{exits.head(code)}: {reading.words(told)}"
    return End(code, message, {**(error or {}), "termination_message": _tail(told)})


def _tail(told: str) -> str:
    return told.strip().encode(errors="replace")[-_MOST_BYTES:].decode(errors="ignore")


def _not_started(code: int, main: Container) -> End:
    told = _RUNTIME.sub("", main.message).removesuffix(": unknown")
    text = f"{exits.head(code)}: its container could not be started"
    fault: Fault = "platform" if _RUNTIME_FAULT.search(main.message) else "user"
    return End(code, f"{text}: {told}" if told else text, {"reason": main.reason}, fault)


def _out_of_memory(code: int, pod: PodView) -> End:
    limit = pod.memory_limit()
    where = f"at its memory limit of {limit}" if limit else "when its node had no memory left"
    what = "it" if code == _KILLED else "a process of it"
    return End(code, f"{exits.head(code)}: the kernel killed {what} {where}", {"reason": "OOMKilled"})


def _without_main(pod: PodView, cause: Cause | None) -> End:
    """A pod that has ended, though nobody tells how its main container did."""
    if pod.phase == "Succeeded":
        return End(0)
    init = next((each for each in pod.inits if each.ended and each.exit_code and each.reason != _UNKNOWN), None)
    if init and (cause is None or not precedes(cause, init.finished_at)):
        return _init_failed(init)
    if cause:
        return from_cause(cause)
    told = pod.message.removeprefix("Pod was rejected: ")
    if not pod.reason:
        text = f"Pod has failed, and its node does not say how the step's container ended{': ' if told else ''}{told}"
        return End(None, text, {"reason": "PodFailed"}, "platform")
    # A node that admits a pod tells of its containers; one without has been refused.
    text = f"Node {pod.node} refused the pod ({pod.reason}){': ' if told else ''}{told}"
    return End(None, text, {"reason": pod.reason}, "user" if pod.reason in _ASKED_WRONG else "platform")


def _init_failed(init: Container) -> End:
    code = init.exit_code
    text = f"Init container '{init.name}' exited with code {code} before the step started"
    if init.reason not in ("", "Error"):
        text = f"{text} ({init.reason})"
    if init.message:
        text = f"{text}: {init.message}"
    return End(code, text, {"reason": INIT_FAILED, "container": init.name}, "platform")
