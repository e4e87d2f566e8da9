"""What a profile lacks in its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.kube.reports import scheduler_remarks
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
