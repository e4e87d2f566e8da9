"""Events of an object, of both kinds that the API knows: one per occurrence with a count, and series. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.backends.kube import reading

#: So many, the newest, are shown.
_MOST_SHOWN = 10
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_OF_CONTAINER = re.compile(r"spec\.(?:initContainers|containers|ephemeralContainers)\{(.+)\}")
_COMBINED = "(combined from similar events): "


@dataclass(frozen=True, slots=True)
class Event:
    """What somebody in the cluster said of an object.

    :param kind: `Normal` or `Warning`
    :param first: when it was said first
    :param last: when it was said last
    :param container: of the pod that it is about; empty: about all of it
    """

    kind: str
    reason: str
    message: str
    first: datetime | None
    last: datetime | None
    count: int
    container: str

    @property
    def warns(self) -> bool:
        return self.kind == "Warning"

    @property
    def order(self) -> datetime:
        """By which the newest is found; without a time it is the oldest."""
        return self.last or self.first or _LONG_AGO


def read(events: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Events as the API lists them, in the order of time."""
    found = [_read(event) for event in events if isinstance(event, Mapping)]
    return sorted(found, key=lambda event: event.order)


def _read(event: Mapping[str, Any]) -> Event:
    first = reading.moment(event, "firstTimestamp") or reading.moment(event, "eventTime")
    last = reading.moment(event, "series", "lastObservedTime") or reading.moment(event, "lastTimestamp") or first
    place = reading.text(event, "involvedObject", "fieldPath") or reading.text(event, "regarding", "fieldPath")
    about = _OF_CONTAINER.fullmatch(place)
    return Event(
        kind=reading.text(event, "type"),
        reason=reading.text(event, "reason"),
        message=(reading.text(event, "message") or reading.text(event, "note")).removeprefix(_COMBINED),
        first=first or last,
        last=last,
        count=reading.number(event, "series", "count") or reading.number(event, "count") or 1,
        container=about[1] if about else "",
    )


def newest(events: Iterable[Event]) -> Event | None:
    """The last of events in the order of time."""
    return max(events, key=lambda event: event.order, default=None)


def shown(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The newest of them for `status_details` (job specification contract §7.3)."""
    return [
        {
            "type": event.kind,
            "reason": event.reason,
            "message": event.message,
            "first_timestamp": event.first and event.first.isoformat(),
            "last_timestamp": event.last and event.last.isoformat(),
            "count": event.count,
        }
        for event in events[-_MOST_SHOWN:]
    ]
