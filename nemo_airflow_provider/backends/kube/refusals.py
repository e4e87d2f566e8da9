"""What becomes of a step whose objects the cluster does not take."""

from __future__ import annotations

from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError

#: No further try mends these: a wrong body, no right, no such namespace, an admission rule.
_FINAL = (400, 403, 404, 405, 413, 415, 422)
_QUOTA = "exceeded quota"
#: What an API server says while it starts, or a quota that is new: 403, and it passes.
_PASSING = ("not yet ready to handle request", "status unknown for quota")
#: Of its store, as a fault of its own (500).
_TOO_LARGE = "request is too large"


def judged(error: Refused) -> BackendError:
    """What a refusal of a creation means for the step."""
    if _QUOTA in error.words:
        return CapacityError(f"No room in the namespace's quota: {error.words}")
    if any(words in error.words for words in _PASSING):
        return error
    # Without a reason it is the word of something in between, such as a proxy.
    if (error.status in _FINAL and error.reason) or _TOO_LARGE in error.words:
        return StartError(f"Kubernetes does not take the job: {error.words}", error.reason or None)
    return error
