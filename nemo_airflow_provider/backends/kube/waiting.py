"""Why a pod does not run yet, in one sentence, and whether it ever will: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from nemo_airflow_provider.backends.kube import reading
from nemo_airflow_provider.backends.kube.events import Event, newest
from nemo_airflow_provider.backends.kube.podview import Container, PodView

#: A secret may come later than the pod that needs it.
PATIENCE = timedelta(seconds=30)

#: An image that its node fails to get, and asks for again.
_PULL_FAILS = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
_PULL_EVENTS = ("Failed", "InspectFailed")
_PULL_WORDS = re.compile(rf"Failed to pull image|Failed to inspect image|Error: (?:{'|'.join(_PULL_FAILS)})\b")
_NEVER_PULLED = ("InvalidImageName", "ErrImageNeverPull")
_NOT_CREATED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
#: What registries say that will say the same next time; as containerd and CRI-O pass it on.
_REFUSED = re.compile(
    r"not found|manifest unknown|name unknown|repository .*does not exist|access denied|denied: |is denied|forbidden"
    r"|unauthorized|authentication required|authorization failed|no basic auth credentials|no match for platform",
    re.IGNORECASE,
)
#: What a node says of itself while it is slow.
_BUSY = re.compile(r"deadline exceeded|timed out waiting|is reserved for", re.IGNORECASE)
#: What keeps a container from being created, in events alone.
_PREPARING = {
    "FailedMount": "Its volumes are not ready",
    "FailedAttachVolume": "Its volumes are not ready",
    "FailedMapVolume": "Its volumes are not ready",
    "FailedCreatePodSandBox": "Its sandbox cannot be created yet",
    "FailedCreatePodContainer": "Its containers cannot be created yet",
    "NetworkNotReady": "Its node's network is not ready",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a pod does not run.

    :param reason: in one word of the cluster's; empty: none
    :param message: in one sentence
    :param hopeless: why it never will
    :param is_usual: whether every pod waits so for a moment
    """

    reason: str
    message: str
    hopeless: str | None = None
    is_usual: bool = False


def wait_of(pod: PodView, now: datetime, pull_seconds: int) -> Wait:
    """Why a pod does not run.

    :param pull_seconds: how long its image may fail to be pulled; 0: for ever
    """
    if not pod.node:
        return _unscheduled(pod)
    blocking = next((each for each in pod.inits if not each.ended and each.reason != "PodInitializing"), pod.main)
    if blocking.state == "running":
        return Wait("PodInitializing", f"Init container {blocking.name} is running")
    reason, told = blocking.reason, blocking.message
    if reason in _NEVER_PULLED:
        sentence = _sentence(f"Image cannot be used ({reason})", told)
        return Wait(reason, sentence, sentence)
    if reason in _PULL_FAILS:
        return _pull_failing(pod, blocking, now, pull_seconds)
    if reason in _NOT_CREATED:
        return _not_created(pod, blocking, now)
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return _preparing(pod, blocking)
    return Wait(reason, _sentence(f"Container {blocking.name} waits ({reason})", told))


def _sentence(head: str, told: str) -> str:
    return f"{head}: {told}" if told else head


def _unscheduled(pod: PodView) -> Wait:
    """The scheduler's own words: whichever scheduler it is, it has set the condition or told an event."""
    condition = pod.condition("PodScheduled")
    reason = condition.reason if condition and condition.status == "False" else ""
    event = newest(event for event in pod.events if event.warns)
    told = condition.message if condition and reason else ""
    if not told and event:
        reason, told = reason or event.reason, event.message
    if reason == "SchedulingGated":
        return Wait(reason, _sentence("Pod is held back from scheduling", told))
    if told or reason:
        return Wait(reason, _sentence("Pod cannot be scheduled yet", told or reason))
    scheduler = reading.text(pod.spec, "schedulerName") or "the default one"
    return Wait("", f"Pod waits for its scheduler ({scheduler})", is_usual=True)


def _pull_failing(pod: PodView, container: Container, now: datetime, seconds: int) -> Wait:
    events = [event for event in pod.events_of(container) if _is_of_pull(event)]
    best = newest(event for event in events if event.message.startswith("Failed to pull image"))
    told = best.message if best else container.message
    reasons = [each for each in _PULL_FAILS if each == container.reason or _says(events, f"Error: {each}")]
    head = "Image cannot be pulled" if _REFUSED.search(told) else "Image could not be pulled yet"
    sentence = _sentence(f"{head} ({container.reason})", told)
    since = min((event.first for event in events if event.first), default=pod.started_at)
    if seconds <= 0 or since is None or now - since < timedelta(seconds=seconds):
        return Wait(container.reason, sentence)
    expired = _sentence(f"Image pull did not succeed within {seconds}s ({', '.join(reasons)})", told)
    return Wait(container.reason, sentence, expired)


def _is_of_pull(event: Event) -> bool:
    return event.warns and event.reason in _PULL_EVENTS and _PULL_WORDS.match(event.message) is not None


def _says(events: Iterable[Event], text: str) -> bool:
    return any(text in event.message for event in events)


def _not_created(pod: PodView, container: Container, now: datetime) -> Wait:
    sentence = _sentence(f"Container cannot be created ({container.reason})", container.message)
    since = _not_created_since(pod, container)
    busy = _BUSY.search(container.message)
    hopeless = since is not None and now - since >= PATIENCE and not busy
    return Wait(container.reason, sentence, sentence if hopeless else None)


def _not_created_since(pod: PodView, container: Container) -> datetime | None:
    """When it was first said that a container cannot be created, or the latest time before that."""
    told = [
        event.first
        for event in pod.events_of(container)
        if event.warns and event.first and container.message and container.message in event.message
    ]
    if told:
        return min(told)
    # The condition says that what comes before the containers is done; the image may still have to be pulled.
    known = [event.last for event in pod.events_of(container) if event.reason == "Pulled"]
    known += [each.since for each in pod.conditions if each.kind in ("Initialized", "PodScheduled")]
    return max(filter(None, [*known, pod.started_at]), default=None)


def _preparing(pod: PodView, container: Container) -> Wait:
    """Before there is a container its node tells in events what it does: the newest holds."""
    events = pod.events_of(container)
    event = newest(each for each in events if each.reason in ("Pulling", "Pulled") or each.reason in _PREPARING)
    reason = container.reason or "ContainerCreating"
    if event is None:
        return Wait(reason, f"Pod is being prepared on node {pod.node}", is_usual=True)
    if event.reason in _PREPARING:
        return Wait(event.reason, _sentence(_PREPARING[event.reason], event.message))
    if event.reason == "Pulling":
        return Wait(reason, event.message or "Pulling its image")
    return Wait(reason, "Container is being created", is_usual=True)
