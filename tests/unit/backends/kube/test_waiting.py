from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.kube.diagnosis import of_pod
from tests.unit.backends.kube.pods import (
    MAIN,
    Json,
    at,
    condition,
    ended,
    event,
    pod,
    runs,
    scheduler_event,
    waits,
)

#: A minute after the first events of the tables.
NOW = datetime(2026, 12, 3, 5, 38, 21, tzinfo=UTC)
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: not helpful."
UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable", NO_ROOM)
ABSENT = (
    'failed to pull and unpack image "docker.io/nemo-test/absent:1": failed to resolve reference '
    '"docker.io/nemo-test/absent:1": '
)
NOT_FOUND, NO_NETWORK = f"{ABSENT}docker.io/nemo-test/absent:1: not found", f"{ABSENT}dial tcp: network is unreachable"
PULL = 'Failed to pull image "nemo-test/absent:1": '
BEGIN = at(21, 37)


def look(thing: Json, *events: Json, now: datetime = NOW, pull_seconds: int = 0) -> Observation:
    return of_pod(thing, events, main=MAIN, stopped=None, now=now, pull_seconds=pull_seconds)


def failed(message: str, last: str = at(1), first: str = BEGIN, container: str = MAIN) -> Json:
    return event("Failed", message, first, last, container=container, count=3)


def pulls(told: str) -> tuple[Json, ...]:
    return (
        event("Pulling", 'Pulling image "nemo-test/absent:1"', BEGIN, at(1), kind="Normal", container=MAIN),
        failed(PULL + told),
        failed("Error: ErrImagePull"),
        failed("Error: ImagePullBackOff", at(16), at(22, 37)),
    )


@pytest.mark.parametrize(
    ("thing", "events", "message", "reason"),
    [
        (
            pod("Pending", conditions=(UNSCHEDULABLE,), node=None),
            (scheduler_event("FailedScheduling", "older words"),),
            f"Pod cannot be scheduled yet: {NO_ROOM}",
            "Unschedulable",
        ),
        (
            pod(
                "Pending",
                conditions=(
                    condition(
                        "PodScheduled",
                        "False",
                        "SchedulingGated",
                        "Scheduling is blocked due to non-empty scheduling gates",
                    ),
                ),
                node=None,
            ),
            (),
            "Pod is held back from scheduling: Scheduling is blocked due to non-empty scheduling gates",
            "SchedulingGated",
        ),
        # No such scheduler: nobody says anything.
        (
            pod("Pending", node=None, schedulerName="kai-scheduler"),
            (),
            "Pod waits for its scheduler (kai-scheduler)",
            None,
        ),
        # KAI tells an event for the queue's limit.
        (
            pod("Pending", node=None, schedulerName="kai-scheduler"),
            (
                scheduler_event("Unschedulable", "no nodes with enough resources", "2026-12-03T05:37:20.5Z"),
                scheduler_event(
                    "NonPreemptibleOverQuota",
                    "Workload requested 2 GPUs, but team-a quota is 1 GPUs",
                    series={"count": 4, "lastObservedTime": "2026-12-03T05:38:20.000001Z"},
                ),
                scheduler_event("Unschedulable", "no nodes with enough resources", "2026-12-03T05:38:10.5Z"),
            ),
            "Pod cannot be scheduled yet: Workload requested 2 GPUs, but team-a quota is 1 GPUs",
            "NonPreemptibleOverQuota",
        ),
        # Volcano sets the condition without words at first.
        (
            pod("Pending", node=None, conditions=(condition("PodScheduled", "False", "Unschedulable"),)),
            (event("FailedScheduling", "1/1 tasks in gang unschedulable: pod group is not ready, 1 minAvailable"),),
            "Pod cannot be scheduled yet: 1/1 tasks in gang unschedulable: pod group is not ready, 1 minAvailable",
            "Unschedulable",
        ),
        (pod("Pending"), (), "Pod is being prepared on node node1", "ContainerCreating"),
        (
            pod("Pending", waits("ContainerCreating")),
            (
                event("FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "nope" not found', BEGIN, at(1)),
                event("Scheduled", "Successfully assigned", BEGIN, kind="Normal"),
            ),
            'Its volumes are not ready: MountVolume.SetUp failed for volume "v" : secret "nope" not found',
            "FailedMount",
        ),
        (
            pod("Pending", waits("ContainerCreating")),
            (event("FailedCreatePodSandBox", "Failed to create pod sandbox: no IP addresses available"),),
            "Its sandbox cannot be created yet: Failed to create pod sandbox: no IP addresses available",
            "FailedCreatePodSandBox",
        ),
        # What its node was troubled by is over.
        (
            pod("Pending", waits("ContainerCreating")),
            (
                event("FailedMount", "timed out", BEGIN),
                event("Pulling", 'Pulling image "train:1"', at(1), kind="Normal", container=MAIN),
                event("Pulling", 'Pulling image "proxy:1"', at(2), kind="Normal", container="istio-proxy"),
            ),
            'Pulling image "train:1"',
            "ContainerCreating",
        ),
        (
            pod("Pending", waits("ContainerCreating")),
            (
                event("Pulling", 'Pulling image "train:1"', at(1), kind="Normal", container=MAIN),
                event("Pulled", "Successfully pulled", at(2), kind="Normal", container=MAIN),
            ),
            "Container is being created",
            "ContainerCreating",
        ),
        (
            pod("Pending", waits("PodInitializing"), inits=(ended(0, name="first"), runs("istio-init"))),
            (),
            "Init container istio-init is running",
            "PodInitializing",
        ),
        (
            pod("Pending", waits("PodInitializing"), inits=(waits("ErrImagePull", NO_NETWORK, name="istio-init"),)),
            (),
            f"Image could not be pulled yet (ErrImagePull): {NO_NETWORK}",
            "ErrImagePull",
        ),
        (
            pod(
                "Pending",
                waits("PodInitializing"),
                inits=(runs("native"),),
                initContainers=[{"name": "native", "restartPolicy": "Always"}],
            ),
            (),
            "Pod is being prepared on node node1",
            "PodInitializing",
        ),
        (
            pod("Pending", waits("ErrImagePull", NO_NETWORK)),
            pulls(NO_NETWORK),
            f"Image could not be pulled yet (ErrImagePull): {PULL}{NO_NETWORK}",
            "ErrImagePull",
        ),
        (
            pod("Pending", waits("ImagePullBackOff", 'Back-off pulling image "nemo-test/absent:1"')),
            pulls(NOT_FOUND),
            f"Image cannot be pulled (ImagePullBackOff): {PULL}{NOT_FOUND}",
            "ImagePullBackOff",
        ),
        (
            pod("Pending", waits("CreateContainerConfigError", 'secret "nope" not found')),
            (failed('Error: secret "nope" not found', first=at(0)),),
            'Container cannot be created (CreateContainerConfigError): secret "nope" not found',
            "CreateContainerConfigError",
        ),
        (
            pod("Pending", waits("SomethingNew", "words")),
            (),
            f"Container {MAIN} waits (SomethingNew): words",
            "SomethingNew",
        ),
        (
            pod("Pending", waits("ImagePullBackOff"), removed=(at(40), 30)),
            pulls(NOT_FOUND),
            "Pod is being removed: Pod was deleted, and not by this job",
            "ImagePullBackOff",
        ),
    ],
)
def test_why_it_waits(thing: Json, events: tuple[Json, ...], message: str, reason: str | None) -> None:
    seen = look(thing, *events)
    assert (seen.phase, seen.message, seen.hopeless) == (Phase.PENDING, message, None)
    assert (seen.details["reason"], seen.fault, seen.exit_code) == (reason, "user", None)


@pytest.mark.parametrize(
    "told",
    [
        "docker.io/nemo-test/absent:1: not found",
        "pull access denied, repository does not exist or may require authorization: server message: "
        "insufficient_scope: authorization failed",
        "unexpected status from HEAD request to https://r.example/v2/a/manifests/1: 403 Forbidden",
        "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
        "no basic auth credentials",
        "no match for platform in manifest: not found",
        "reading manifest 1 in r.example/a: manifest unknown",
        "reading manifest 1 in docker.io/a/b: requested access to the resource is denied",
        "reading manifest 1 in r.example/a: unauthorized: authentication required",
        "reading manifest 1 in r.example/a: name unknown: repository a/b does not exist",
    ],
)
def test_a_registry_that_refuses_is_told_from_one_that_is_away(told: str) -> None:
    seen = look(pod("Pending", waits("ErrImagePull", told)), failed(PULL + told))
    assert seen.message == f"Image cannot be pulled (ErrImagePull): {PULL}{told}"
    # A person may push the image.
    assert seen.hopeless is None


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("InvalidImageName", 'couldn\'t parse image name "UPPER/Case:1": invalid reference format'),
        ("ErrImageNeverPull", 'Container image "nemo-test/absent:1" is not present with pull policy of Never'),
    ],
)
def test_an_image_that_can_never_be_used(reason: str, message: str) -> None:
    seen = look(pod("Pending", waits(reason, message)))
    assert seen.phase is Phase.PENDING
    assert seen.message == seen.hopeless == f"Image cannot be used ({reason}): {message}"


def test_an_image_that_is_not_pulled_in_time() -> None:
    thing = pod("Pending", waits("ErrImagePull", NOT_FOUND))
    text = f"Image pull did not succeed within 60s (ErrImagePull, ImagePullBackOff): {PULL}{NOT_FOUND}"
    assert look(thing, *pulls(NOT_FOUND), pull_seconds=60).hopeless == text
    assert look(thing, *pulls(NOT_FOUND), pull_seconds=61).hopeless is None
    assert look(thing, *pulls(NOT_FOUND), pull_seconds=0).hopeless is None
    # Another container's trouble, and other trouble of this one, is no failed pull.
    others = (failed(PULL, container="istio-proxy"), failed('Error: secret "nope" not found'))
    assert look(thing, *others, failed(PULL, first=at(1)), pull_seconds=60).hopeless is None


def test_a_pull_is_timed_from_the_pods_start_where_events_are_gone() -> None:
    thing = pod("Pending", waits("ErrImagePull", NO_NETWORK))
    expected = f"Image pull did not succeed within 61s (ErrImagePull): {NO_NETWORK}"
    assert look(thing, pull_seconds=61).hopeless == expected
    assert look(thing, pull_seconds=62).hopeless is None


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_a_container_that_cannot_be_created_is_given_half_a_minute(reason: str) -> None:
    thing = pod(
        "Pending", waits(reason, 'secret "nope" not found'), conditions=(condition("Initialized", "True", None),)
    )
    told = failed('Error: secret "nope" not found', first=BEGIN)
    sentence = f'Container cannot be created ({reason}): secret "nope" not found'
    since = datetime.fromisoformat(BEGIN)
    assert look(thing, told, now=since + timedelta(seconds=29)).hopeless is None
    assert look(thing, told, now=since + timedelta(seconds=30)).hopeless == sentence
    # Without that event the latest time before it counts.
    assert look(thing, now=NOW).hopeless is None
    pulled = event("Pulled", "Successfully pulled image", at(20), kind="Normal", container=MAIN)
    late = datetime.fromisoformat(at(49))
    assert look(thing, now=late).hopeless == sentence
    assert look(thing, pulled, now=late).hopeless is None


@pytest.mark.parametrize(
    "words",
    [
        "context deadline exceeded",
        'failed to reserve container name "nemo-job-task_train": name "nemo-job-task_train" is reserved for "9f0"',
        "failed to sync secret cache: timed out waiting for the condition",
    ],
)
def test_a_busy_node_is_waited_for(words: str) -> None:
    seen = look(pod("Pending", waits("CreateContainerError", words)), failed(f"Error: {words}", first=at(0, 30)))
    assert seen.hopeless is None


def test_the_words_of_a_cluster_are_kept_short() -> None:
    seen = look(
        pod("Pending", conditions=(condition("PodScheduled", "False", "Unschedulable", "a\n b " * 9000),), node=None)
    )
    assert seen.message is not None
    assert "\n" not in seen.message
    assert len(seen.message) < 1200
