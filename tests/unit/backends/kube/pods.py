"""Pods and events as a cluster of Kubernetes 1.34 with containerd 2 gives them, without what does not matter here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAIN = "nemo-job-task"
UID = "1f2e0c2e-4f57-4b39-9d0e-0a4c6d1f0001"
#: When a pod of the tables came to its node, and when its containers began.
BEGAN, STARTED = "2026-12-03T05:37:20Z", "2026-12-03T05:37:24Z"

Json = dict[str, Any]


def at(second: int, minute: int = 38) -> str:
    return f"2026-12-03T05:{minute:02}:{second:02}Z"


def waits(reason: str, message: str | None = None, name: str = MAIN) -> Json:
    return {
        "name": name,
        "restartCount": 0,
        "lastState": {},
        "state": {"waiting": _some(reason=reason, message=message)},
    }


def runs(name: str = MAIN, **more: Any) -> Json:
    return {"name": name, "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": STARTED}}, **more}


def ended(
    code: int,
    reason: str | None = None,
    message: str | None = None,
    *,
    name: str = MAIN,
    finished: str | None = at(10),
    **more: Any,
) -> Json:
    body = _some(reason=reason or ("Error" if code else "Completed"), message=message)
    state = {"terminated": {"exitCode": code, "startedAt": STARTED, "finishedAt": finished, **body}}
    return {"name": name, "restartCount": 0, "lastState": {}, "state": state, **more}


def unknown(name: str = MAIN) -> Json:
    """As a node tells of a container that never began, when its pod ends."""
    message = "The container could not be located when the pod was terminated"
    return ended(137, "ContainerStatusUnknown", message, name=name, finished=None)


def pod(
    phase: str,
    *containers: Json,
    inits: tuple[Json, ...] = (),
    reason: str | None = None,
    message: str | None = None,
    conditions: tuple[Json, ...] = (),
    removed: tuple[str, int] | None = None,
    node: str | None = "node1",
    main: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """A pod.

    :param removed: its `deletionTimestamp` and `deletionGracePeriodSeconds`
    :param main: of the main container in its specification
    """
    marks = {"deletionTimestamp": removed[0], "deletionGracePeriodSeconds": removed[1]} if removed else {}
    lists = _some(containerStatuses=list(containers), initContainerStatuses=list(inits), conditions=list(conditions))
    return {
        "metadata": {"name": "train-fit-abc", "uid": UID, **marks},
        "spec": {
            **_some(nodeName=node),
            "schedulerName": "default-scheduler",
            "containers": [{"name": MAIN, "terminationMessagePolicy": "FallbackToLogsOnError", **(main or {})}],
            **spec,
        },
        "status": {"phase": phase, **_some(reason=reason, message=message, startTime=node and BEGAN), **lists},
    }


def condition(kind: str, status: str, reason: str | None, message: str | None = None, since: str = at(5)) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": since, **_some(reason=reason, message=message)}


def event(
    reason: str,
    message: str,
    first: str | None = at(5),
    last: str | None = None,
    *,
    kind: str = "Warning",
    container: str | None = None,
    count: int = 1,
) -> Json:
    """As kubelet and controllers write them."""
    about = {"kind": "Pod", **_some(fieldPath=container and f"spec.containers{{{container}}}")}
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "firstTimestamp": first,
        "lastTimestamp": last or first,
        "eventTime": None,
        "count": count,
        "involvedObject": about,
    }


def scheduler_event(reason: str, message: str, when: str = "2026-12-03T05:37:20.584867Z", **more: Any) -> Json:
    """As kube-scheduler and KAI write them."""
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": when,
        "reportingComponent": "default-scheduler",
        "involvedObject": {"kind": "Pod"},
        **more,
    }


def started(name: str = MAIN) -> Json:
    return event("Started", f"Started container {name}", STARTED, kind="Normal", container=name)


def killing(name: str = MAIN, first: str = at(5)) -> Json:
    return event("Killing", f"Stopping container {name}", first, kind="Normal", container=name)


def _some(**fields: Any) -> Json:
    return {key: value for key, value in fields.items() if value}
