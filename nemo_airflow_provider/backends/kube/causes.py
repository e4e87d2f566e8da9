"""Why a pod was ended from outside, and whether that was before its main container ended by itself: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from nemo_airflow_provider.backends.base import StopReason
from nemo_airflow_provider.backends.kube.events import newest
from nemo_airflow_provider.backends.kube.podview import PodView
from nemo_airflow_provider.errors import Fault

#: How long after its grace a pod is gone, if its node answers.
_SILENCE = timedelta(seconds=60)
_DEADLINE = "DeadlineExceeded"
NODE_LOST = "NodeLost"
#: Reasons of a pod's status that its node, or who speaks for a node that does not answer, gives.
_BY_NODE = {
    "Evicted": "Pod was evicted by its node",
    NODE_LOST: "The pod's node does not answer",
    "NodeShutdown": "Pod was ended because its node shuts down",
    "Preempting": "Pod was preempted by its node",
    "Shutdown": "Pod was ended because its node shuts down",
    "Terminated": "Pod was ended by its node",
}
#: Reasons of the condition `DisruptionTarget`.
_DISRUPTIONS = {
    "PreemptionByScheduler": "Pod was preempted",
    "EvictionByEvictionAPI": "Pod was evicted",
    "DeletionByTaintManager": "Pod was removed from its node",
    "DeletionByPodGC": "Pod was removed with its node",
    "TerminationByKubelet": "Pod was ended by its node",
}
#: Events in which schedulers and controllers say why they remove a pod.
_REMOVALS = ("Evict", "Evicted", "EvictedByScheduler", "NodeControllerEviction", "Preempted", "TaintManagerEviction")
#: A pod that its node evicts for what it has used up beyond its own limits.
_OWN_LIMIT = re.compile(r"exceeds? the (?:total )?limit|exceeded its local ephemeral storage limit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cause:
    """What ended a pod, or will.

    :param reason: in the cluster's word
    :param text: in one sentence
    :param at: since when; None: nobody knows
    :param stopped: for an end of ours
    """

    reason: str
    text: str
    at: datetime | None
    fault: Fault = "platform"
    stopped: StopReason | None = None


def cause_of(pod: PodView, asked: bool) -> Cause | None:
    """What ends a pod from outside, whether or not its main container had ended before.

    :param asked: whether we asked it to end
    """
    if pod.reason == _DEADLINE:
        at = pod.first_told(_DEADLINE) or pod.killed_at or pod.deadline
        return Cause(_DEADLINE, pod.message or "Its deadline is over", at, "user", "asked" if asked else "ttl")
    if asked and pod.gone_by:
        return Cause("Deleted", "Pod was deleted for this job", pod.removed_at, stopped="asked")
    return _by_node(pod) or _disruption(pod) or _removal(pod)


def precedes(cause: Cause, ended_at: datetime | None) -> bool:
    """Whether a container that ended then may have ended for that; the API's times are of whole seconds."""
    return cause.at is None or ended_at is None or ended_at >= cause.at.replace(microsecond=0)


def is_gone_silently(pod: PodView, now: datetime) -> bool:
    """Whether a pod should have ended, and been removed, long ago: its node does not answer."""
    return pod.gone_by is not None and now > pod.gone_by + _SILENCE


def silence(pod: PodView) -> Cause:
    """Why nobody knows how such a pod ended."""
    text = f"Node {pod.node or 'of the pod'} does not answer, and the pod's time to end is over"
    return Cause(NODE_LOST, text, None)


def _with(head: str, told: str) -> str:
    return f"{head}: {told}" if told else head


def _by_node(pod: PodView) -> Cause | None:
    if (head := _BY_NODE.get(pod.reason)) is None:
        return None
    condition = pod.condition("DisruptionTarget")
    since = condition.since if condition and condition.status == "True" else None
    at = since or pod.first_told(pod.reason) or pod.killed_at
    fault: Fault = "user" if _OWN_LIMIT.search(pod.message) else "platform"
    return Cause(pod.reason, _with(head, pod.message), at, fault)


def _disruption(pod: PodView) -> Cause | None:
    condition = pod.condition("DisruptionTarget")
    if condition is None or condition.status != "True":
        return None
    head = _DISRUPTIONS.get(condition.reason, "Pod was disrupted")
    return Cause(condition.reason or "DisruptionTarget", _with(head, condition.message), condition.since)


def _removal(pod: PodView) -> Cause | None:
    if pod.gone_by is None:
        return None
    if event := newest(event for event in pod.events if event.reason in _REMOVALS):
        return Cause(event.reason, _with("Pod was removed", event.message), pod.removed_at)
    return Cause("Deleted", "Pod was deleted, and not by this job", pod.removed_at)
