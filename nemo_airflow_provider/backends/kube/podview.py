"""One pod as its diagnosis looks at it: the main container apart from what others put beside it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from nemo_airflow_provider.backends.kube import reading
from nemo_airflow_provider.backends.kube.events import Event, read

#: A container that ended so soon before the mark of its pod's removal may have been told to, if no events tell.
_UNTOLD = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, as its node tells of it; a node that has not told yet leaves all but the name empty.

    :param state: `waiting`, `running`, `terminated`, or empty
    :param body: what the API says of that state
    :param before: how its last run ended, if it was started again
    :param restarts: how often it was started again
    """

    name: str
    state: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    restarts: int = 0

    @property
    def reason(self) -> str:
        return reading.text(self.body, "reason")

    @property
    def message(self) -> str:
        return reading.text(self.body, "message")

    @property
    def exit_code(self) -> int | None:
        return reading.number(self.body, "exitCode")

    @property
    def ended(self) -> bool:
        return self.state == "terminated"

    @property
    def finished_at(self) -> datetime | None:
        return reading.moment(self.body, "finishedAt")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod."""

    kind: str
    status: str
    reason: str
    message: str
    since: datetime | None


class PodView:
    """A pod and its events.

    :param pod: as the API gives it
    :param events: of that pod
    :param main: name of the container whose end is the workload's end
    """

    def __init__(self, pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]], main: str) -> None:
        self.spec, self.status = reading.part(pod, "spec"), reading.part(pod, "status")
        self._metadata = reading.part(pod, "metadata")
        self.events: list[Event] = read(events)
        self.name, self.uid = reading.text(self._metadata, "name"), reading.text(self._metadata, "uid")
        self.node = reading.text(self.spec, "nodeName")
        self.phase = reading.text(self.status, "phase")
        self.reason, self.message = reading.text(self.status, "reason"), reading.text(self.status, "message")
        self.main = next((each for each in self._containers("containerStatuses") if each.name == main), Container(main))
        self.conditions = [_condition(each) for each in reading.parts(self.status, "conditions")]

    @property
    def inits(self) -> list[Container]:
        """Containers that must have ended before the main one begins: no sidecars among them."""
        beside = {
            reading.text(each, "name")
            for each in reading.parts(self.spec, "initContainers")
            if reading.text(each, "restartPolicy") == "Always"
        }
        return [each for each in self._containers("initContainerStatuses") if each.name not in beside]

    def _containers(self, place: str) -> list[Container]:
        return [_container(each) for each in reading.parts(self.status, place)]

    def main_spec(self) -> Mapping[str, Any]:
        """The main container as it was asked for."""
        found = reading.parts(self.spec, "containers")
        return next((each for each in found if reading.text(each, "name") == self.main.name), {})

    def memory_limit(self) -> str:
        """Of the main container, else of the whole pod, as somebody wrote it; empty: none."""
        statuses = reading.parts(self.status, "containerStatuses")
        now = next((each for each in statuses if reading.text(each, "name") == self.main.name), {})
        places = (now, self.main_spec(), self.spec)
        return next(filter(None, (reading.text(each, "resources", "limits", "memory") for each in places)), "")

    def condition(self, kind: str) -> Condition | None:
        """The condition of a type."""
        return next((each for each in self.conditions if each.kind == kind), None)

    @property
    def gone_by(self) -> datetime | None:
        """When a pod that is being removed has used up its grace."""
        return reading.moment(self._metadata, "deletionTimestamp")

    @property
    def removed_at(self) -> datetime | None:
        """When its removal was asked for, as far as that can be told once the main container has ended."""
        if (end := self.gone_by) is None:
            return None
        if grace := reading.number(self._metadata, "deletionGracePeriodSeconds"):
            return end - timedelta(seconds=grace)
        # Its node has set both anew, after the last container ended, unless it had ended before the removal.
        if killed := self.killed_at:
            return min(killed, end)
        return end if any(event.reason == "Started" for event in self.events) else end - _UNTOLD

    @property
    def killed_at(self) -> datetime | None:
        """When its node told the main container to end."""
        told = (event.first for event in self.events if event.reason == "Killing" and event.container == self.main.name)
        return next(filter(None, told), None)

    @property
    def deadline(self) -> datetime | None:
        """When its node ends it at the earliest; one that was moved to the past ends it at once."""
        seconds = reading.number(self.spec, "activeDeadlineSeconds")
        return None if seconds is None or self.started_at is None else self.started_at + timedelta(seconds=seconds)

    def first_told(self, reason: str) -> datetime | None:
        """When an event of a reason was first told."""
        return min((event.first for event in self.events if event.reason == reason and event.first), default=None)

    @property
    def started_at(self) -> datetime | None:
        """When its node took it over; no container ran then."""
        return reading.moment(self.status, "startTime")

    def events_of(self, container: Container) -> list[Event]:
        """Events about one container, or about no certain one."""
        return [event for event in self.events if event.container in ("", container.name)]


def _container(status: Mapping[str, Any]) -> Container:
    states = reading.part(status, "state")
    state = next((each for each in ("terminated", "running", "waiting") if each in states), "")
    return Container(
        name=reading.text(status, "name"),
        state=state,
        body=reading.part(states, state),
        before=reading.part(status, "lastState", "terminated"),
        restarts=reading.number(status, "restartCount") or 0,
    )


def _condition(condition: Mapping[str, Any]) -> Condition:
    return Condition(
        kind=reading.text(condition, "type"),
        status=reading.text(condition, "status"),
        reason=reading.text(condition, "reason"),
        message=reading.text(condition, "message"),
        since=reading.moment(condition, "lastTransitionTime"),
    )
