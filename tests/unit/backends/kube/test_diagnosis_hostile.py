"""Pods and events in which anything may stand anywhere."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.base import Phase, StopReason
from nemo_airflow_provider.backends.kube.diagnosis import of_creation, of_pod
from tests.unit.backends.kube.pods import (
    MAIN,
    STARTED,
    Json,
    at,
    condition,
    ended,
    event,
    killing,
    pod,
    runs,
    scheduler_event,
    unknown,
    waits,
)

NOW = datetime(2026, 12, 3, 5, 38, 30, tzinfo=UTC)
EVICTING = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
PODS = [
    pod("Pending", conditions=(condition("PodScheduled", "False", "Unschedulable", "words"),), node=None),
    pod("Pending", waits("ErrImagePull", "not found"), conditions=(condition("Initialized", "True", None),)),
    pod("Pending", waits("CreateContainerConfigError", "not found"), inits=(ended(0, name="i"),)),
    pod("Pending", waits("PodInitializing"), inits=(ended(3, name="i"), runs("j")), initContainers=[{"name": "j"}]),
    pod("Failed", waits("PodInitializing"), inits=(ended(3, name="i"),), reason="Evicted", message="words"),
    pod("Failed", reason="OutOfcpu", message="words"),
    pod("Running", runs(), ended(5, name="istio-proxy"), removed=(at(35), 30), conditions=(EVICTING,)),
    pod("Failed", ended(137, "OOMKilled", resources={"limits": {"memory": "16Mi"}}), removed=(at(11), 0)),
    pod("Failed", ended(1, message="words"), reason="DeadlineExceeded", message="words", activeDeadlineSeconds=6),
    pod("Failed", unknown(), conditions=(EVICTING,)),
]
EVENTS = [
    event("Failed", "Error: ErrImagePull", container=MAIN),
    event("Evict", "words"),
    event("DeadlineExceeded", "words", kind="Normal"),
    event("FailedCreate", 'Error creating: pods "j" is forbidden: no'),
    scheduler_event("FailedScheduling", "words", series={"count": 2, "lastObservedTime": at(3)}),
    killing(),
]
WORDS = [
    *("", "Failed", "Succeeded", "Running", "Unknown", "DeadlineExceeded", "NodeLost", "True", "StartError"),
    *(STARTED, at(5), "2026-12-03", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-W49-4", "\ud800"),
    *("2026-12-03T05:37:20", "2026-12-03T05:37:20+14:00", "2026-12-03T05:37:20.584867123Z", "OOMKilled"),
]
JUNK = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 2**31, 10**40, 0.5, float("nan"), float("inf"), [], {}, [[]], [{}], [None], {"a": {}}])
    | st.sampled_from(WORDS)
)


def places(thing: Any) -> Iterator[tuple[Any, Any]]:
    """Each list or object in a thing, with each of its keys."""
    for key in thing.keys() if isinstance(thing, dict) else range(len(thing)):
        yield thing, key
        if isinstance(thing[key], dict | list):
            yield from places(thing[key])


@st.composite
def spoilt(draw: st.DrawFn, things: list[Json]) -> Json:
    """One of the things with junk at up to four places."""
    thing = copy.deepcopy(draw(st.sampled_from(things)))
    for _ in range(draw(st.integers(0, 4))):
        if found := list(places(thing)):
            holder, key = found[draw(st.integers(0, len(found) - 1))]
            holder[key] = copy.deepcopy(draw(JUNK))
    return thing


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    thing=spoilt(PODS),
    events=st.lists(spoilt(EVENTS), max_size=4),
    stopped=st.sampled_from([None, "asked"]),
    pull_seconds=st.sampled_from([0, 1, 60, 10**9]),
)
def test_whatever_the_api_says_there_is_an_answer(
    thing: Json, events: list[Json], stopped: StopReason | None, pull_seconds: int
) -> None:
    seen = of_pod(thing, events, main=MAIN, stopped=stopped, now=NOW, pull_seconds=pull_seconds)
    assert seen.phase in (Phase.PENDING, Phase.RUNNING, Phase.ENDED)
    assert seen.hopeless is None or seen.phase is Phase.PENDING
    # Nothing but a code that the API gave is one.
    assert seen.exit_code is None or type(seen.exit_code) is int
    of_creation(events, NOW)


def test_an_empty_object_is_a_pod_that_waits() -> None:
    assert of_pod({}, [], main=MAIN, stopped=None, now=NOW, pull_seconds=60).phase is Phase.PENDING
