"""What a Job, its pods and their events mean for a workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.kube.metadata import STOP_ASKED
from nemo_airflow_provider.backends.kubernetes_job.observation import Look, newest
from tests.unit.backends.kube import pods

NOW = datetime(2026, 12, 3, 5, 40, tzinfo=UTC)
JOB_UID = "job-uid"


def job(*conditions: str, asked: bool = False, suspend: bool = False, **status: Any) -> dict[str, Any]:
    annotations = {STOP_ASKED: "2026-12-03T05:38:00+00:00"} if asked else {}
    found = [{"type": name, "status": "True", "message": f"words of {name}"} for name in conditions]
    return {
        "metadata": {"name": "train-fit", "uid": JOB_UID, "annotations": annotations},
        "spec": {"suspend": suspend},
        "status": {"conditions": found, **status},
    }


def seen(
    of: dict[str, Any] | None,
    *living: dict[str, Any],
    gone: Sequence[dict[str, Any]] = (),
    events: Sequence[dict[str, Any]] = (),
) -> Observation:
    def events_of(uids: Iterable[str]) -> list[dict[str, Any]]:
        wanted = set(uids)
        return [event for event in events if event["involvedObject"]["uid"] in wanted]

    return Look(of, list(living), list(gone), events_of, NOW).observed()


def event(reason: str, message: str, uid: str = JOB_UID) -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid},
        "firstTimestamp": "2026-12-03T05:39:00Z",
        "lastTimestamp": "2026-12-03T05:39:55Z",
        "count": 1,
    }


RUNNING = pods.pod("Running", pods.runs())


def test_nothing_at_all() -> None:
    assert seen(None).phase is Phase.ABSENT


def test_a_pod_that_runs() -> None:
    assert seen(job(active=1), RUNNING).phase is Phase.RUNNING


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_the_task_decides(code: int) -> None:
    """Whatever the Job says by then."""
    ended = pods.pod("Failed" if code else "Succeeded", pods.ended(code))
    for conditions in ((), ("Complete",), ("FailureTarget", "Failed")):
        assert (seen(job(*conditions), ended).phase, seen(job(*conditions), ended).exit_code) == (Phase.ENDED, code)


def test_a_job_without_a_pod_yet() -> None:
    found = seen(job())
    assert (found.phase, found.message) == (Phase.PENDING, "Waiting for pods to be created for this job")


def test_a_job_whose_pod_is_not_let_in() -> None:
    words = 'Error creating: pods "train-fit-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2'
    found = seen(job(), events=[event("FailedCreate", words)])
    assert found.phase is Phase.PENDING
    assert found.hopeless is None
    assert str(found.message).startswith("No room in the namespace's quota: small")
    refused = 'Error creating: pods "train-fit-x" is forbidden: violates PodSecurity "restricted:latest"'
    found = seen(job(), events=[event("FailedCreate", refused)])
    assert "violates PodSecurity" in str(found.hopeless)


def test_a_job_that_waits_for_its_queue() -> None:
    """Such as one that Kueue holds back, before it has a pod or after."""
    waiting = pods.pod("Pending", removed=(pods.at(30), 0), node=None)
    for gone in ([], [waiting]):
        found = seen(job(suspend=True), gone=gone)
        assert (found.phase, found.stopped) == (Phase.PENDING, None)
        assert "suspended" in str(found.message)


def test_a_pod_that_its_queue_takes_back() -> None:
    """One that has not begun is waited for; one that has will not be started a second time."""
    waiting = pods.pod("Pending", node=None, removed=(pods.at(9), 0))
    found = seen(job(suspend=True), gone=[waiting])
    assert (found.phase, found.stopped) == (Phase.PENDING, None)
    assert "suspended" in str(found.message)
    begun = pods.pod("Failed", pods.ended(143), removed=(pods.at(9), 30))
    of = job(suspend=True)
    assert seen(of, gone=[begun]).fault == "platform"
    for living, again in (([], True), ([begun], True), ([RUNNING], False)):
        assert Look(of, living, [], lambda _: [], NOW).may_run_again is again
    assert not Look(job("Failed", suspend=True), [], [], lambda _: [], NOW).may_run_again
    assert not Look(job(), [], [], lambda _: [], NOW).may_run_again


def test_a_job_that_was_asked_to_end_before_it_had_a_pod() -> None:
    found = seen(job(asked=True, suspend=True))
    assert (found.phase, found.stopped, found.exit_code) == (Phase.ENDED, "asked", None)


def test_a_pod_that_completed_and_was_removed() -> None:
    assert (seen(job("Complete")).phase, seen(job("Complete")).exit_code) == (Phase.ENDED, 0)


@pytest.mark.parametrize("of", [job("Failed"), job("FailureTarget"), job(failed=1)])
def test_a_pod_that_was_removed_unseen(of: dict[str, Any]) -> None:
    found = seen(of, events=[event("TaintManagerEviction", "Marking for deletion Pod x")])
    assert (found.phase, found.exit_code, found.fault) == (Phase.ENDED, None, "platform")
    assert found.message == "The job's pod was removed before its end was seen: Marking for deletion Pod x"
    assert found.error == {"reason": "PodRemoved"}


def test_a_pod_that_was_removed_as_it_was_last_seen() -> None:
    last = pods.pod("Failed", pods.ended(143), removed=(pods.at(9), 30))
    found = seen(job("FailureTarget"), gone=[last])
    assert (found.phase, found.exit_code, found.fault) == (Phase.ENDED, 143, "platform")


def test_a_pod_that_was_removed_while_it_still_ran() -> None:
    found = seen(job(), gone=[RUNNING])
    assert (found.phase, found.exit_code, found.fault) == (Phase.ENDED, None, "platform")


def test_why_a_pod_was_removed_is_told_where_its_end_was_not_seen() -> None:
    evicted = pods.condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
    last = pods.pod("Running", pods.runs(), conditions=(evicted,), removed=(pods.at(59, 39), 30))
    found = seen(job("Failed"), gone=[last])
    assert (found.phase, found.exit_code, found.fault) == (Phase.ENDED, None, "platform")
    assert (found.message, found.error) == (
        "Pod was evicted: Eviction API: evicting",
        {"reason": "EvictionByEvictionAPI"},
    )


def test_a_removed_pod_of_a_job_that_was_asked_to_end() -> None:
    found = seen(job(asked=True), gone=[RUNNING])
    assert (found.phase, found.stopped) == (Phase.ENDED, "asked")


def owned(pod: dict[str, Any]) -> dict[str, Any]:
    owner = {"kind": "Job", "name": "train-fit", "uid": JOB_UID, "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


ENDED = [pods.pod("Succeeded", pods.ended(0)), pods.pod("Failed", pods.ended(143))]


def test_a_job_that_was_removed() -> None:
    leaving = pods.pod("Running", pods.runs(), removed=(pods.at(59, 39), 30))
    found = seen(None, owned(leaving))
    assert (found.phase, found.message) == (Phase.RUNNING, "The Job was removed; its pod is ending")
    for ended in ENDED:
        assert seen(None, owned(ended)).phase is Phase.ABSENT
    removed = job()
    removed["metadata"]["deletionTimestamp"] = pods.at(30)
    assert seen(removed).phase is Phase.ABSENT


def test_a_pod_that_was_kept_when_its_job_was_removed() -> None:
    assert [(seen(None, ended).phase, seen(None, ended).exit_code) for ended in ENDED] == [
        (Phase.ENDED, 0),
        (Phase.ENDED, 143),
    ]
    found = seen(None, RUNNING)
    assert (found.phase, found.message) == (Phase.RUNNING, None)


@pytest.mark.parametrize("others", [(), (pods.runs(name="proxy"),)])
def test_an_end_that_was_asked_for_is_seen_when_all_of_the_pod_has_ended(others: tuple[Any, ...]) -> None:
    """Only then the kubelet says why it was."""
    pod = pods.pod("Running", pods.ended(143), *others)
    pod["metadata"]["annotations"] = {STOP_ASKED: "2026-12-03T05:38:00+00:00"}
    assert seen(job(), pod).phase is Phase.RUNNING
    pod = {**pod, "status": {**pod["status"], "phase": "Failed", "reason": "DeadlineExceeded"}}
    assert (seen(job("Failed"), pod).phase, seen(job("Failed"), pod).stopped) == (Phase.ENDED, "asked")


def test_what_ran_beside_a_task_and_was_ended_changes_nothing() -> None:
    pod = pods.pod("Failed", pods.ended(0), pods.ended(137, name="proxy"), reason="DeadlineExceeded")
    pod["metadata"]["annotations"] = {"nhx.nvidia.com/task-ended-before": "true"}
    found = seen(job("Failed"), pod)
    assert (found.phase, found.exit_code, found.stopped, found.error) == (Phase.ENDED, 0, None, None)


def test_the_pod_that_counts() -> None:
    def made(name: str, created: str, **more: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "creationTimestamp": created, **more}}

    old, new = made("old", "2026-12-03T05:00:00Z"), made("new", "2026-12-03T06:00:00Z")
    leaving = made("leaving", "2026-12-03T07:00:00Z", deletionTimestamp="2026-12-03T07:00:01Z")
    assert newest([]) is None
    assert newest([new, old]) is new
    assert newest([leaving, old]) is old
    assert newest([leaving]) is leaving
