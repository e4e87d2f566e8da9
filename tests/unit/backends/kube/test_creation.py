"""Why a Job has no pod."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nemo_airflow_provider.backends.kube.diagnosis import of_creation
from tests.unit.backends.kube.pods import Json, at, event

NOW = datetime(2026, 12, 3, 5, 38, 30, tzinfo=UTC)


def created(words: str, first: str, last: str | None = None, reason: str = "FailedCreate") -> Json:
    return event(reason, words, first, last)


FORBIDDEN = 'Error creating: pods "j-{}" is forbidden: '


@pytest.mark.parametrize(
    "words",
    [
        FORBIDDEN + 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        FORBIDDEN + "failed quota: q: must specify limits.cpu for: nemo-job-task",
        FORBIDDEN + 'error looking up service account kdiag/nope: serviceaccount "nope" not found',
        FORBIDDEN + 'pod rejected: RuntimeClass "nope" not found',
        FORBIDDEN + "no PriorityClass with name high was found",
        'Error creating: admission webhook "validate.kyverno.svc" denied the request: no',
        "Error creating: etcdserver: request is too large{}",
        'Error creating: Pod "j-{}" is invalid: spec.containers[0].image: Required value',
    ],
)
def test_a_refused_pod_is_tried_for_half_a_minute(words: str) -> None:
    # Each try has a pod's name, and so an event, of its own.
    events = [created(words.format(name), at(second)) for name, second in (("sm96c", 6), ("chs8m", 13), ("wmkfw", 21))]
    sentence = f"The cluster refuses the pod: {words.removeprefix('Error creating: ').format('wmkfw')}"
    assert of_creation(events, NOW) == (sentence, None)
    assert of_creation(events, NOW.replace(second=36)) == (sentence, sentence)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            FORBIDDEN + "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
            "No room in the namespace's quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        ),
        (
            'Error creating: Internal error occurred: failed calling webhook "v": failed to call webhook: Post '
            '"https://v.svc:443/v": service "v" not found',
            'Pod cannot be created yet: Internal error occurred: failed calling webhook "v": failed to call webhook: '
            'Post "https://v.svc:443/v": service "v" not found',
        ),
        (
            "Error creating: Timeout: request did not complete",
            "Pod cannot be created yet: Timeout: request did not complete",
        ),
        (
            '(combined from similar events): Error creating: pods "j-{}" is forbidden: exceeded quota: q',
            "No room in the namespace's quota: q",
        ),
    ],
)
def test_a_pod_may_still_be_created(words: str, message: str) -> None:
    assert of_creation([created(words, at(6), at(29))], NOW.replace(minute=59)) == (message, None)


def test_only_the_last_tries_without_anything_else_count_as_refused() -> None:
    refused, busy = FORBIDDEN + "no", "Error creating: Timeout: request did not complete"
    events = [created(refused, at(1, 30)), created(busy, at(2, 38)), created(refused, at(20, 38))]
    assert of_creation(events, NOW)[1] is None
    assert of_creation([*events, created("Created pod: j-1", at(21), reason="SuccessfulCreate")], NOW) == (None, None)
    assert of_creation([], NOW) == (None, None)
    assert of_creation([{"reason": "FailedCreate"}], NOW) == ("Pod cannot be created yet: ", None)
