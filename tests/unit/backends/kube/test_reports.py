"""What a profile lacks in its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Site
from nemo_airflow_provider.backends.kube.reports import scheduler_remarks
from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
from tests.unit.backends.kube.make import profile

QUEUE = {"labels": {"kai.scheduler/queue-name": "research"}}


def said(groups: set[str], **keys: Any) -> list[str]:
    return [remark.message for remark in scheduler_remarks(profile(scheduler_name="kai-scheduler", **keys), groups)]


@pytest.mark.parametrize("label", ["kai.scheduler/queue-name", "kai.scheduler/queue", "runai/queue"])
def test_nothing_to_say(label: str) -> None:
    queue = {"labels": {label: "research"}}
    assert said({"apps", "scheduling.run.ai"}, job_metadata=queue, pod_metadata=queue) == []


def test_a_scheduler_that_is_not_there() -> None:
    assert said({"apps"}, job_metadata=QUEUE, pod_metadata=QUEUE) == [
        "The KAI scheduler (kai-scheduler) is not installed there: pods that name it are never scheduled"
    ]


def test_a_queue_that_is_not_named() -> None:
    groups = {"scheduling.run.ai"}
    assert said(groups, job_metadata=QUEUE) == ["pod_metadata.labels names no queue of the KAI scheduler"]
    assert said(groups) == [
        "job_metadata.labels names no queue of the KAI scheduler",
        "pod_metadata.labels names no queue of the KAI scheduler",
    ]


def test_what_has_to_be_asked_of_each_profile() -> None:
    """Of profiles of which the same is to be said, one is asked."""

    def examined(**keys: Any) -> tuple[object, ...]:
        site = Site(connect=lambda *_: None)
        return KubernetesJobBackend(profile(namespace="n", **keys), site).examined()

    usual = examined()
    assert examined(node_selector={"a": "b"}, pod_metadata=QUEUE) == usual
    kai = {"scheduler_name": "kai-scheduler"}
    others = [examined(storage={"pvc_name": "jobs"}), examined(**kai), examined(**kai, job_metadata=QUEUE)]
    assert all(others.count(other) == 1 and other != usual for other in others)
