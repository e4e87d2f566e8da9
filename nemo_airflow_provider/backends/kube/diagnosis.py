"""What a cluster says of a pod → how its task stands, in one sentence: pure. Knows pods alone, of whatever made them.

Why a pod waits is in `waiting`, what ended it from outside in `causes`, how it ended in `endings`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.backends.kube import events as told
from nemo_airflow_provider.backends.kube.causes import NODE_LOST, Cause, cause_of, is_gone_silently, silence
from nemo_airflow_provider.backends.kube.endings import End, end_of, from_cause
from nemo_airflow_provider.backends.kube.podview import Condition, PodView
from nemo_airflow_provider.backends.kube.waiting import PATIENCE, wait_of

_ENDED = ("Failed", "Succeeded")
_NO_ROOM = re.compile(r"exceeded quota: *(.*)")
#: What the API or an admission webhook will say the same next time.
_REFUSAL = re.compile(r"denied the request|violates PodSecurity|is invalid|is forbidden|not found|is too large")
#: A webhook or a part of the control plane that does not answer.
_AWAY = re.compile(r"failed calling webhook|connection refused|deadline exceeded|timed? ?out", re.IGNORECASE)
_CREATING = "Error creating: "


def of_pod(
    pod: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    *,
    main: str,
    stopped: StopReason | None,
    now: datetime,
    pull_seconds: int,
) -> Observation:
    """One look at a pod.

    :param pod: as the API gives it
    :param events: of that pod, in any order
    :param main: name of the container whose end is the workload's end; others do not matter
    :param stopped: `asked` if we asked it to end
    :param now: the time, with a zone
    :param pull_seconds: how long its image may fail to be pulled; 0: for ever
    """
    view = PodView(pod, events, main)
    asked = stopped == "asked"
    cause = cause_of(view, asked)
    if view.main.ended or view.phase in _ENDED:
        return _ended(view, end_of(view, cause))
    if is_gone_silently(view, now):
        lost = silence(view)
        return _ended(view, from_cause(Cause(lost.reason, lost.text, None, stopped="asked" if asked else None)))
    if view.main.state == "running" or view.main.restarts or view.main.before or view.phase == "Unknown":
        message = _running(view, cause)
        where = f"Pod {view.name} runs on node {view.node}"
        details = _details(view, view.main.reason)
        return Observation(Phase.RUNNING, message=message, details=details, note=message or where)
    wait = wait_of(view, now, pull_seconds)
    details = _details(view, wait.reason)
    if cause is not None:
        removed = _removed(cause)
        return Observation(Phase.PENDING, message=removed or wait.message, details=details, note=removed)
    told = None if wait.is_usual else wait.message
    return Observation(Phase.PENDING, message=wait.message, details=details, hopeless=wait.hopeless, note=told)


def _ended(pod: PodView, end: End) -> Observation:
    return Observation(
        Phase.ENDED,
        exit_code=end.exit_code,
        stopped=end.stopped,
        message=end.message,
        # What runs on beside it, or a kubelet that has not told yet, keeps the pod's phase at Running.
        details={**_details(pod, pod.reason or pod.main.reason), "phase": pod.phase if pod.phase in _ENDED else None},
        error=end.error,
        fault=end.fault,
    )


def _running(pod: PodView, cause: Cause | None) -> str | None:
    if cause is not None:
        return _removed(cause)
    ready = pod.condition("Ready")
    # A node that answers gives a reason for what is not ready; who speaks for it when it does not gives none.
    if pod.phase == "Unknown" or (ready and ready.status in ("False", "Unknown") and not ready.reason):
        return f"Node {pod.node or 'of the pod'} does not answer; the pod may be well"
    if pod.main.state != "running":
        return f"Container is started again ({pod.main.reason or 'it has ended'})"
    return None


def _removed(cause: Cause) -> str | None:
    """What is said of a pod that lives but not for long; nothing of our own wish."""
    if cause.reason == NODE_LOST:
        return cause.text  # it may come back
    return None if cause.stopped == "asked" else f"Pod is being removed: {cause.text}"


def _details(pod: PodView, reason: str) -> dict[str, Any]:
    """For `status_details`: every key each time, since what was said before stays where nothing replaces it."""
    return {
        "pod_name": pod.name,
        "pod_uid": pod.uid,
        "node": pod.node or None,
        "phase": pod.phase or None,
        "reason": reason or None,
        "conditions": [_shown(each) for each in pod.conditions if _matters(each)],
        "events": told.shown(pod.events),
    }


def _matters(condition: Condition) -> bool:
    """Whether it says more than that containers are not ready, which the pod's phase says too."""
    return condition.kind == "DisruptionTarget" or (condition.kind == "PodScheduled" and condition.status != "True")


def _shown(condition: Condition) -> dict[str, str]:
    return {
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }


def of_creation(events: Sequence[Mapping[str, Any]], now: datetime) -> tuple[str | None, str | None]:
    """Why what was to make a pod makes none: one sentence while that may change, and why it never will.

    :param events: of the Job, in any order
    :param now: the time, with a zone
    """
    seen = [event for event in told.read(events) if event.reason in ("FailedCreate", "SuccessfulCreate")]
    if not seen or seen[-1].reason == "SuccessfulCreate":
        return None, None
    words = seen[-1].message.removeprefix(_CREATING)
    if found := _NO_ROOM.search(words):
        return f"No room in the namespace's quota: {found[1] or words}", None
    if not _is_refusal(seen[-1]):
        return f"Pod cannot be created yet: {words}", None
    sentence = f"The cluster refuses the pod: {words}"
    since = seen[-1].first
    # Each try has a pod's name, and so an event, of its own: the first refusal without anything else since counts.
    for event in reversed(seen):
        if not _is_refusal(event):
            break
        since = event.first or since
    return sentence, sentence if since is not None and now - since >= PATIENCE else None


def _is_refusal(event: told.Event) -> bool:
    words = event.message
    return bool(_REFUSAL.search(words)) and not _AWAY.search(words) and not _NO_ROOM.search(words)
