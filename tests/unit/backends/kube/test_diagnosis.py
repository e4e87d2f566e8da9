"""How a running and an ended pod is understood; why one waits is in `test_waiting`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.backends.kube.diagnosis import of_pod
from nemo_airflow_provider.errors import Fault
from tests.unit.backends.kube.pods import (
    MAIN,
    UID,
    Json,
    at,
    condition,
    ended,
    event,
    killing,
    pod,
    runs,
    started,
    unknown,
    waits,
)

HEAD = "Job exited with non-zero code"
LOGS = "check logs for details."
NOW = datetime(2026, 12, 3, 5, 38, 30, tzinfo=UTC)
PROXY = "istio-proxy"
DEADLINE = "Pod was active on the node longer than the specified deadline"
GONE = "Pod was deleted, and not by this job"
SIGKILL = f"{HEAD} 137: it was ended by SIGKILL, {LOGS}"
PREFIX = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
EVICTING = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
OVER = event("DeadlineExceeded", DEADLINE, at(5), at(11), kind="Normal", count=4)


def look(
    thing: Json, *events: Json, stopped: StopReason | None = None, now: datetime = NOW, pull_seconds: int = 0
) -> Observation:
    return of_pod(thing, events, main=MAIN, stopped=stopped, now=now, pull_seconds=pull_seconds)


def disruption(reason: str, message: str, since: str = at(5)) -> Json:
    return condition("DisruptionTarget", "True", reason, message, since)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (pod("Running", runs()), None),
        (pod("Running", runs(), ended(5, name=PROXY)), None),
        (pod("Running", runs(restartCount=2, lastState=ended(1)["state"])), None),
        (
            pod("Running", waits("CrashLoopBackOff") | {"restartCount": 1, "lastState": ended(1)["state"]}),
            "Container is started again (CrashLoopBackOff)",
        ),
        (pod("Unknown", runs()), "Node node1 does not answer; the pod may be well"),
        (
            pod("Running", runs(), conditions=(condition("Ready", "False", None),)),
            "Node node1 does not answer; the pod may be well",
        ),
        (
            pod("Running", runs(), conditions=(condition("Ready", "False", "ContainersNotReady", "[istio-proxy]"),)),
            None,
        ),
        (
            pod("Running", runs(), removed=(at(35), 30), conditions=(EVICTING,)),
            "Pod is being removed: Pod was evicted: Eviction API: evicting",
        ),
        (pod("Running", runs(), removed=(at(35), 30)), f"Pod is being removed: {GONE}"),
        (
            pod("Running", runs(), reason="NodeLost", message="Node node1 is unresponsive"),
            "The pod's node does not answer: Node node1 is unresponsive",
        ),
    ],
)
def test_it_runs(thing: Json, message: str | None) -> None:
    seen = look(thing)
    assert (seen.phase, seen.exit_code, seen.message) == (Phase.RUNNING, None, message)


def test_nothing_is_said_of_a_removal_that_we_asked_for() -> None:
    assert look(pod("Running", runs(), removed=(at(35), 30)), stopped="asked").message is None


@pytest.mark.parametrize(
    ("thing", "code", "message", "error", "fault"),
    [
        (pod("Succeeded", ended(0)), 0, None, None, "user"),
        (pod("Running", ended(0), runs(PROXY)), 0, None, None, "user"),
        (pod("Failed", ended(0), ended(137, name=PROXY)), 0, None, None, "user"),
        (pod("Succeeded"), 0, None, None, "user"),
        (pod("Running", ended(1), runs(PROXY)), 1, f"{HEAD} 1, {LOGS}", None, "user"),
        (pod("Failed", ended(126)), 126, f"{HEAD} 126: its command cannot be executed, {LOGS}", None, "user"),
        (
            pod("Failed", ended(127)),
            127,
            f"{HEAD} 127: its command was not found in the image, {LOGS}",
            None,
            "user",
        ),
        (
            pod("Failed", ended(139)),
            139,
            f"{HEAD} 139: it was ended by SIGSEGV, {LOGS}",
            {"signal": "SIGSEGV"},
            "user",
        ),
        (pod("Failed", ended(137)), 137, SIGKILL, {"signal": "SIGKILL"}, "user"),
        (
            pod("Failed", ended(3, message="bad\n")),
            3,
            f"{HEAD} 3, {LOGS}",
            {"termination_message": "bad"},
            "user",
        ),
        (
            pod("Failed", ended(9, message="because\n"), main={"terminationMessagePolicy": "File"}),
            9,
            f"{HEAD} 9: because",
            {"termination_message": "because"},
            "user",
        ),
        (
            pod("Failed", ended(137, "OOMKilled", resources={"limits": {"memory": "16Mi"}})),
            137,
            f"{HEAD} 137: the kernel killed it at its memory limit of 16Mi",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            pod("Failed", ended(7, "OOMKilled", "Killed\n"), main={"resources": {"limits": {"memory": "64Mi"}}}),
            7,
            f"{HEAD} 7: the kernel killed a process of it at its memory limit of 64Mi",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            pod("Failed", ended(137, "OOMKilled"), resources={"limits": {"memory": "1Gi"}}),
            137,
            f"{HEAD} 137: the kernel killed it at its memory limit of 1Gi",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            pod("Failed", ended(137) | {"lastState": ended(137, "OOMKilled")["state"]}),
            137,
            f"{HEAD} 137: the kernel killed it when its node had no memory left",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            pod(
                "Failed",
                ended(128, "StartError", f'{PREFIX}exec: "nosuch": executable file not found in $PATH: unknown'),
            ),
            128,
            f'{HEAD} 128: its container could not be started: exec: "nosuch": executable file not found in $PATH',
            {"reason": "StartError"},
            "user",
        ),
        (
            pod(
                "Failed",
                ended(
                    128,
                    "StartError",
                    f"{PREFIX}error during container init: mkdir /etc/passwd: not a directory: unknown",
                ),
            ),
            128,
            f"{HEAD} 128: its container could not be started: mkdir /etc/passwd: not a directory",
            {"reason": "StartError"},
            "user",
        ),
        (
            pod("Failed", ended(127, "ContainerCannotRun", "container create failed: executable file `x` not found")),
            127,
            f"{HEAD} 127: its container could not be started: container create failed: executable file `x` not found",
            {"reason": "ContainerCannotRun"},
            "user",
        ),
        (
            pod("Failed", ended(128, "StartError", "nvidia-container-cli: initialization error: driver not loaded")),
            128,
            f"{HEAD} 128: its container could not be started: nvidia-container-cli: initialization error: driver not "
            "loaded",
            {"reason": "StartError"},
            "platform",
        ),
        (
            pod("Failed", unknown()),
            None,
            "Nobody saw how the container ended: The container could not be located when the pod was terminated",
            {"reason": "ContainerStatusUnknown"},
            "platform",
        ),
    ],
)
def test_it_ended_by_itself(
    thing: Json, code: int | None, message: str | None, error: dict[str, Any] | None, fault: Fault
) -> None:
    # That we asked for its end changes nothing of one that came by itself.
    for stopped in (None, "asked"):
        seen = look(thing, stopped=stopped)
        assert seen.phase is Phase.ENDED
        assert (seen.exit_code, seen.stopped, seen.fault) == (code, None, fault)
        assert (seen.message, seen.error) == (message, error)


def test_no_more_than_the_end_of_what_it_left_is_kept() -> None:
    seen = look(pod("Failed", ended(1, message="ä" * 2000 + "the end\n")))
    assert seen.error is not None
    kept = seen.error["termination_message"]
    assert kept.endswith("the end")
    assert len(kept.encode()) <= 1024


@pytest.mark.parametrize(
    ("thing", "message", "reason", "fault"),
    [
        (
            pod(
                "Failed",
                reason="OutOfcpu",
                message="Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: 0, "
                "capacity: 2000",
            ),
            "Node node1 refused the pod (OutOfcpu): Node didn't have enough resource: cpu, requested: 1000000, "
            "used: 0, capacity: 2000",
            "OutOfcpu",
            "platform",
        ),
        (
            pod(
                "Failed",
                reason="NodeAffinity",
                message="Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
                "affinity/selector",
            ),
            "Node node1 refused the pod (NodeAffinity): Predicate NodeAffinity failed: node(s) didn't match Pod's node "
            "affinity/selector",
            "NodeAffinity",
            "platform",
        ),
        (
            pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed due to no healthy devices"),
            "Node node1 refused the pod (UnexpectedAdmissionError): Allocate failed due to no healthy devices",
            "UnexpectedAdmissionError",
            "platform",
        ),
        (
            pod(
                "Failed",
                reason="SysctlForbidden",
                message='Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted',
            ),
            'Node node1 refused the pod (SysctlForbidden): forbidden sysctl: "kernel.msgmax" not allowlisted',
            "SysctlForbidden",
            "user",
        ),
        (
            pod("Failed", reason="NodeShutdown", message="Pod was rejected as the node is shutting down."),
            "Pod was ended because its node shuts down: Pod was rejected as the node is shutting down.",
            "NodeShutdown",
            "platform",
        ),
        (
            pod("Failed", reason="Evicted", message="The node had condition: [DiskPressure]. "),
            "Pod was evicted by its node: The node had condition: [DiskPressure].",
            "Evicted",
            "platform",
        ),
        (
            pod("Failed", runs(), conditions=(disruption("DeletionByPodGC", "PodGC: node no longer exists"),)),
            "Pod was removed with its node: PodGC: node no longer exists",
            "DeletionByPodGC",
            "platform",
        ),
        (
            pod("Failed", reason="NodeLost", message="Node node1 is unresponsive"),
            "The pod's node does not answer: Node node1 is unresponsive",
            "NodeLost",
            "platform",
        ),
        (
            pod("Failed"),
            "Pod has failed, and its node does not say how the step's container ended",
            "PodFailed",
            "platform",
        ),
        (pod("Failed", removed=(at(5), 0), node=None), GONE, "Deleted", "platform"),
        (pod("Failed", unknown(), removed=(at(5), 0)), GONE, "Deleted", "platform"),
        (pod("Running", runs(), removed=(at(30, 37), 0)), None, "", "user"),
    ],
)
def test_it_ended_without_an_exit_code(thing: Json, message: str | None, reason: str, fault: Fault) -> None:
    seen = look(thing)
    if not reason:
        # Its node has a minute beyond the grace to tell.
        assert seen.phase is Phase.RUNNING
        return
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, None, None)
    assert (seen.message, seen.fault) == (message, fault)
    assert seen.error == {"reason": reason}


@pytest.mark.parametrize("container", [runs(), waits("ImagePullBackOff")])
@pytest.mark.parametrize("stopped", [None, "asked"])
def test_a_pod_that_is_not_gone_long_after_its_grace_is_lost_with_its_node(
    container: Json, stopped: StopReason | None
) -> None:
    thing = pod("Running", container, removed=(at(29, 37), 30))
    seen = look(thing, stopped=stopped)
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, None, stopped)
    assert seen.message == "Node node1 does not answer, and the pod's time to end is over"
    assert (seen.error, seen.fault) == ({"reason": "NodeLost"}, "platform")


@pytest.mark.parametrize(
    ("reason", "message", "text"),
    [
        (
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
            "Pod was preempted: default-scheduler: preempting to accommodate a higher priority pod",
        ),
        ("EvictionByEvictionAPI", "Eviction API: evicting", "Pod was evicted: Eviction API: evicting"),
        (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
            "Pod was removed from its node: Taint manager: deleting due to NoExecute taint",
        ),
        ("TerminationByKubelet", "", "Pod was ended by its node"),
        ("SomethingNew", "words", "Pod was disrupted: words"),
    ],
)
def test_what_a_disruption_ended_is_no_fault_of_the_job(reason: str, message: str, text: str) -> None:
    # The node has marked the removal anew after the container's end.
    marks: Json = {"conditions": (disruption(reason, message),), "removed": (at(11), 0)}
    failed = look(pod("Failed", ended(137), **marks))
    assert (failed.exit_code, failed.stopped, failed.fault) == (137, None, "platform")
    assert (failed.message, failed.error) == (text, {"reason": reason})
    # A process that ends well when it is told to has not completed.
    obedient = look(pod("Succeeded", ended(0), **marks))
    assert (obedient.exit_code, obedient.stopped, obedient.fault) == (0, "interrupted", "platform")
    assert obedient.message == text
    # One that had ended before has.
    before = look(pod("Failed", ended(0, finished=at(4)), ended(137, name=PROXY), **marks))
    assert (before.exit_code, before.stopped, before.message) == (0, None, None)
    failed_before = look(pod("Failed", ended(2, finished=at(4)), **marks))
    assert (failed_before.fault, failed_before.message) == ("user", f"{HEAD} 2, {LOGS}")


@pytest.mark.parametrize(
    ("reason", "message", "text", "fault"),
    [
        (
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 96620Ki. ",
            "Pod was evicted by its node: The node was low on resource: memory. Threshold quantity: 100Mi, available: "
            "96620Ki.",
            "platform",
        ),
        (
            "Evicted",
            'Usage of EmptyDir volume "v" exceeds the limit "10Mi". ',
            'Pod was evicted by its node: Usage of EmptyDir volume "v" exceeds the limit "10Mi".',
            "user",
        ),
        (
            "Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            "Pod was evicted by its node: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            "user",
        ),
        (
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
            "Pod was ended by its node: Pod was terminated in response to imminent node shutdown.",
            "platform",
        ),
        (
            "Preempting",
            "Preempted in order to admit critical pod",
            "Pod was preempted by its node: Preempted in order to admit critical pod",
            "platform",
        ),
    ],
)
def test_its_node_ended_it(reason: str, message: str, text: str, fault: Fault) -> None:
    seen = look(pod("Failed", ended(137), reason=reason, message=message))
    assert (seen.exit_code, seen.message, seen.error, seen.fault) == (137, text, {"reason": reason}, fault)
    # Without the condition the event says when that was.
    before = pod("Failed", ended(0, finished=at(4)), reason=reason, message=message)
    assert look(before, event(reason, message, at(5))).stopped is None
    assert look(before, event(reason, message, at(4))).stopped == "interrupted"


@pytest.mark.parametrize(
    ("thing", "events", "code", "stopped", "text"),
    [
        # Its node has moved the mark to after the end; the event tells when the container was told to end.
        (
            pod("Succeeded", ended(0, finished=at(5)), removed=(at(6), 0)),
            (started(), killing()),
            0,
            "interrupted",
            GONE,
        ),
        (pod("Failed", ended(143, finished=at(5)), removed=(at(6), 0)), (started(), killing()), 143, None, GONE),
        # As it is before the mark is moved.
        (pod("Succeeded", ended(0, finished=at(5)), removed=(at(35), 30)), (), 0, "interrupted", GONE),
        # Nobody may read events: an end shortly before the mark is doubted.
        (pod("Succeeded", ended(0, finished=at(5)), removed=(at(6), 0)), (), 0, "interrupted", GONE),
        # It had ended before somebody removed the pod.
        (pod("Succeeded", ended(0, finished=at(5)), removed=(at(6), 0)), (started(),), 0, None, None),
        (pod("Succeeded", ended(0, finished=at(30, 37)), removed=(at(6), 0)), (), 0, None, None),
        (pod("Failed", ended(0, finished=at(4)), removed=(at(11), 0)), (started(), killing(PROXY)), 0, None, None),
        (pod("Failed", ended(1, finished=at(4)), removed=(at(35), 30)), (), 1, None, f"{HEAD} 1, {LOGS}"),
        # A scheduler says why.
        (
            pod("Failed", ended(143), removed=(at(11), 0)),
            (started(), killing(), event("Evict", "Pod was preempted by queue gpu")),
            143,
            None,
            "Pod was removed: Pod was preempted by queue gpu",
        ),
    ],
)
def test_somebody_else_deleted_it(
    thing: Json, events: tuple[Json, ...], code: int, stopped: StopReason | None, text: str | None
) -> None:
    seen = look(thing, *events)
    assert (seen.phase, seen.exit_code, seen.stopped, seen.message) == (Phase.ENDED, code, stopped, text)
    # What we ended is ours, in the same cases.
    ours = look(thing, *events, stopped="asked")
    told = seen.fault == "platform"
    assert (ours.exit_code, ours.stopped, ours.fault) == (code, "asked" if told else None, "user")


@pytest.mark.parametrize(
    ("container", "events", "code", "by_itself"),
    [
        (ended(137), (OVER, killing()), 137, False),
        (ended(0, finished=at(5)), (OVER, killing()), 0, False),
        (unknown(), (OVER,), None, False),
        (waits("ImagePullBackOff"), (), None, False),
        (ended(0, finished=at(4)), (OVER, killing(PROXY)), 0, True),
        # Without events the deadline itself is the earliest moment.
        (ended(0, finished=at(25, 37)), (), 0, True),
        (ended(0, finished=at(26, 37)), (), 0, False),
    ],
)
def test_its_deadline(container: Json, events: tuple[Json, ...], code: int | None, by_itself: bool) -> None:
    thing = pod("Failed", container, reason="DeadlineExceeded", message=DEADLINE, activeDeadlineSeconds=6)
    seen, ours = look(thing, *events), look(thing, *events, stopped="asked")
    assert (seen.phase, ours.phase) == (Phase.ENDED, Phase.ENDED)
    assert (seen.exit_code, ours.exit_code) == (code, code)
    assert (seen.stopped, ours.stopped) == ((None, None) if by_itself else ("ttl", "asked"))
    assert seen.message == (None if by_itself else DEADLINE)


def test_an_asked_end_keeps_the_words_for_its_exit_code() -> None:
    thing = pod("Failed", ended(143), reason="DeadlineExceeded", message=DEADLINE, activeDeadlineSeconds=1)
    seen = look(thing, OVER, stopped="asked")
    assert (seen.message, seen.error) == (f"{HEAD} 143: it was ended by SIGTERM, {LOGS}", {"signal": "SIGTERM"})


@pytest.mark.parametrize(
    ("init", "text"),
    [
        (ended(4, name="istio-init"), "exited with code 4 before the step started"),
        (ended(4, message="no route", name="istio-init"), "exited with code 4 before the step started: no route"),
        (ended(137, "OOMKilled", name="istio-init"), "exited with code 137 before the step started (OOMKilled)"),
    ],
)
def test_an_init_container_failed(init: Json, text: str) -> None:
    seen = look(pod("Failed", waits("PodInitializing"), inits=(ended(0, name="first"), init)))
    assert (seen.phase, seen.exit_code, seen.fault) == (
        Phase.ENDED,
        init["state"]["terminated"]["exitCode"],
        "platform",
    )
    assert seen.message == f"Init container 'istio-init' {text}"
    assert seen.error == {"reason": "InitContainerFailed", "container": "istio-init"}


def test_what_ended_the_pod_ended_its_init_container() -> None:
    thing = pod("Failed", waits("PodInitializing"), inits=(ended(137, name="i"),), conditions=(EVICTING,))
    seen = look(thing)
    assert (seen.exit_code, seen.error) == (None, {"reason": "EvictionByEvictionAPI"})


def test_the_end_of_a_sidecar_among_the_init_containers_is_no_failure() -> None:
    native = {"initContainers": [{"name": "native", "restartPolicy": "Always"}]}
    done = pod("Succeeded", ended(0), inits=(ended(137, name="native"),), **native)
    assert look(done).exit_code == 0
    failed = pod("Failed", inits=(ended(137, name="native"),), **native)
    assert look(failed).error == {"reason": "PodFailed"}


def test_details_name_the_pod_and_show_the_newest_events() -> None:
    events = [event("Pulling", f"{n}", at(n), at(n + 1), count=2) for n in range(12)]
    seen = look(pod("Running", runs(), conditions=(condition("Ready", "True", None),)), *reversed(events))
    assert [each["message"] for each in seen.details["events"]] == [f"{n}" for n in range(2, 12)]
    assert seen.details["events"][-1] == {
        "type": "Warning",
        "reason": "Pulling",
        "message": "11",
        "first_timestamp": "2026-12-03T05:38:11+00:00",
        "last_timestamp": "2026-12-03T05:38:12+00:00",
        "count": 2,
    }
    # Each key each time: a detail that nothing replaces stays for ever.
    assert {**seen.details, "events": []} == {
        "pod_name": "train-fit-abc",
        "pod_uid": UID,
        "node": "node1",
        "phase": "Running",
        "reason": None,
        "conditions": [],
        "events": [],
    }


def test_a_pod_that_has_ended_is_not_called_running() -> None:
    """A sidecar, or a kubelet that is slow to tell, keeps its phase."""
    assert look(pod("Running", ended(0))).details["phase"] is None
    assert look(pod("Succeeded", ended(0))).details["phase"] == "Succeeded"


def test_the_task_log_gets_where_it_runs_and_why_it_does_not() -> None:
    assert look(pod("Running", runs())).note == "Pod train-fit-abc runs on node node1"
    usual = [pod("Pending", node=None), pod("Pending")]
    assert [look(each).note for each in usual] == [None, None]
    scheduled = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    unscheduled = look(pod("Pending", conditions=(scheduled,), node=None))
    assert unscheduled.note == unscheduled.message and "Insufficient cpu" in unscheduled.message


def test_details_hold_what_conditions_say_of_waiting_and_removal() -> None:
    scheduled = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    seen = look(pod("Pending", conditions=(scheduled, EVICTING), node=None))
    assert [each["reason"] for each in seen.details["conditions"]] == ["Unschedulable", "EvictionByEvictionAPI"]
    assert (seen.details["reason"], seen.details["node"]) == ("Unschedulable", None)
    assert look(pod("Failed", ended(137, "OOMKilled"))).details["reason"] == "OOMKilled"
