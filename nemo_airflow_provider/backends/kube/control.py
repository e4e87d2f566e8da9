"""How a pod is asked to end, and the notes that say so.

A pod that is deleted takes its exit codes and its output with it. So one that runs is not deleted: its deadline is
moved into the past, and the kubelet ends it as politely as any other and keeps what it leaves. The note is an
annotation, set by the same request, and only if nothing has changed since the pod was looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.metadata import STOP_ASKED
from nemo_airflow_provider.backends.kube.pod import MAIN

#: Says of a pod that its main container had ended when the rest of it was.
_ENDED_BEFORE = f"{labels.PREFIX}task-ended-before"
#: Conditions of a Job that makes no pod any more.
_FINAL = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"}
#: After a pod's grace, before harder means: a kubelet that was away may still hear.
_PATIENCE = timedelta(seconds=10)


def was_asked(thing: Thing) -> bool:
    """Whether an object has the note that it was asked to end."""
    return STOP_ASKED in (thing["metadata"].get("annotations") or {})


def has_ended_by_itself(pod: Thing) -> bool:
    """Whether only what ran beside a task that had ended was asked to end."""
    return _ENDED_BEFORE in (pod["metadata"].get("annotations") or {})


def main_state(pod: Thing) -> Mapping[str, Any]:
    """The state of the task's container, as the kubelet tells it; empty where it does not."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    found: Mapping[str, Any] = next((each.get("state") or {} for each in statuses if each.get("name") == MAIN), {})
    return found


def may_run(pod: Thing) -> bool:
    """Whether a task's container runs, or may still begin to."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and "terminated" not in main_state(pod)


def is_orphan(pod: Thing) -> bool:
    """Whether a pod belongs to nothing any more, so that it neither goes nor is made again by what made it."""
    return not any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or [])


def keeps_output(pod: Thing) -> bool:
    """Whether a pod that is left of a Job can still be read: it runs, or nobody removes it."""
    return "running" in main_state(pod) or is_orphan(pod)


def is_final(owner: Thing) -> bool:
    """Whether what makes pods makes none any more."""
    conditions = (owner.get("status") or {}).get("conditions") or []
    return any(each["type"] in _FINAL and each.get("status") == "True" for each in conditions)


def has_others(pod: Thing) -> bool:
    """Whether a container that nobody else ends runs on beside a task that has ended by itself."""
    status = pod.get("status") or {}
    states = {each["name"]: each.get("state") or {} for each in status.get("containerStatuses") or []}
    if status.get("phase") != "Running" or was_asked(pod) or "terminated" not in states.get(MAIN, {}):
        return False
    return any("terminated" not in state for state in states.values())


def is_ending(pod: Thing) -> bool:
    """Whether a pod that was asked to end has not ended as a whole: only then its node says why it has."""
    return was_asked(pod) and (pod.get("status") or {}).get("phase") == "Running"


def has_shorter_grace(pod: Thing, grace_seconds: float) -> bool:
    """Whether a pod is to end faster than by its own grace, which only its removal makes shorter."""
    return max(1.0, grace_seconds) < float(pod["spec"].get("terminationGracePeriodSeconds") or 0)


def ask_to_end(cluster: Cluster, pod: Thing, now: datetime) -> bool:
    """Ask for the end of a pod whose task runs, with the pod's own grace.

    :return: False when the pod has changed meanwhile and must be looked at again
    """
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return True
    asked_at = (metadata.get("annotations") or {}).get(STOP_ASKED)
    if asked_at is None:
        return _move_deadline(cluster, pod, {STOP_ASKED: now.isoformat()}, version=metadata["resourceVersion"])
    own_grace = timedelta(seconds=float(pod["spec"].get("terminationGracePeriodSeconds") or 0))
    if now > _moment(asked_at, now) + own_grace + _PATIENCE:
        remove(cluster, pod, 1)
    return True


def note_stop(cluster: Cluster, kind: str, owner: Thing, now: datetime) -> None:
    """Write at what makes the pods that they were asked to end."""
    if not was_asked(owner):
        patch = {"metadata": {"annotations": {STOP_ASKED: now.isoformat()}}}
        cluster.patch(kind, owner["metadata"]["name"], patch)


def remove(cluster: Cluster, pod: Thing, grace_seconds: float) -> None:
    """Remove a pod, and with it what it leaves.

    :param grace_seconds: one of 0 would remove the object of a pod that may still run, so it is 1 at least
    """
    metadata = pod["metadata"]
    cluster.delete("pods", metadata["name"], uid=metadata["uid"], grace_seconds=max(1, math.ceil(grace_seconds)))


def remove_unchanged(cluster: Cluster, pod: Thing) -> bool:
    """Remove a pod that has not begun; False when it has changed, and may have."""
    metadata = pod["metadata"]
    return cluster.delete("pods", metadata["name"], uid=metadata["uid"], version=metadata["resourceVersion"])


def end_others(cluster: Cluster, pod: Thing) -> None:
    """End what runs on beside a task that has ended, and keep its pod."""
    if not has_ended_by_itself(pod) and not pod["metadata"].get("deletionTimestamp"):
        # Whatever else has changed meanwhile: what has ended does not begin again.
        _move_deadline(cluster, pod, {_ENDED_BEFORE: "true"}, version=None)


def _move_deadline(cluster: Cluster, pod: Thing, note: Mapping[str, str], *, version: str | None) -> bool:
    unchanged = {} if version is None else {"resourceVersion": version}
    patch = {"metadata": {**unchanged, "annotations": dict(note)}, "spec": {"activeDeadlineSeconds": 1}}
    try:
        cluster.patch("pods", pod["metadata"]["name"], patch)
    except Refused as error:
        if error.status == 409:
            return False
        raise
    return True


def _moment(text: str, otherwise: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return found if found.tzinfo else found.replace(tzinfo=UTC)
