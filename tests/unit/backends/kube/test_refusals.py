"""Which refusals of a creation are final."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.refusals import judged
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError

QUOTA = 'jobs.batch "x" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'
#: Two who count in one quota at the same moment.
BUSY = 'Operation cannot be fulfilled on resourcequotas "small": the object has been modified; try again'


@pytest.mark.parametrize(
    ("status", "words", "reason", "meaning"),
    [
        (403, QUOTA, "Forbidden", CapacityError),
        (409, BUSY, "Conflict", BackendError),
        (403, 'User "w" cannot create resource "jobs"', "Forbidden", StartError),
        (404, 'namespaces "n" not found', "NotFound", StartError),
        (422, 'Job.batch "x" is invalid: spec', "Invalid", StartError),
        (500, "etcdserver: request is too large", "", StartError),
        (500, 'Internal error occurred: failed calling webhook "v"', "InternalError", BackendError),
        (401, "Unauthorized", "Unauthorized", BackendError),
        (429, "the server has received too many requests", "TooManyRequests", BackendError),
    ],
)
def test_what_a_refusal_means(status: int, words: str, reason: str, meaning: type[BackendError]) -> None:
    found = judged(Refused(f"The API refuses: {words}", status, words, reason))
    kinds = [kind for kind in (CapacityError, StartError) if isinstance(found, kind)]
    assert kinds == ([] if meaning is BackendError else [meaning])
    assert words in str(found)
