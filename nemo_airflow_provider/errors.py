"""The error tree. HTTP status and exit code are class attributes, mapped once at each border.

NemoJobsError
├── ConfigError            the `jobs:` file or an option of `[nemo]` is wrong
├── BadRequest             a query cannot be understood
├── InvalidJob             a job that cannot run as written
├── Forbidden, NotFound, Conflict, Unavailable
├── Superseded             this try of a step is not the current one any more
├── OutputLost             the rest of a workload's output can never be had
└── BackendError           the engine said no
    ├── CapacityError      no room now: wait, do not fail
    ├── StartError         the workload cannot be started as written
    └── LostWorkload       what we started is not there any more
"""

from __future__ import annotations

from typing import Literal

Fault = Literal["user", "capacity", "platform"]


class NemoJobsError(Exception):
    """Base of every error that reaches a person. Its text says what happened, to what, and what to do."""

    code = "error"
    http_status = 500
    exit_code = 1
    fault: Fault = "platform"


class ConfigError(NemoJobsError):
    """The `jobs:` file or an option is wrong; the text names file, line and key path."""

    code = "config_error"
    http_status = 503
    exit_code = 2


class BadRequest(NemoJobsError):
    """A filter, a sort or a combination of query parameters that has no meaning (HTTP 400)."""

    code = "bad_request"
    http_status = 400
    fault: Fault = "user"


class InvalidJob(NemoJobsError):
    """A job specification that cannot run as written (HTTP 422; job specification contract §3)."""

    code = "invalid_job"
    http_status = 422
    fault: Fault = "user"


class Forbidden(NemoJobsError):
    """The caller may see the thing but not do this to it."""

    code = "forbidden"
    http_status = 403
    fault: Fault = "user"


class NotFound(NemoJobsError):
    """There is no such thing, or the caller may not know that there is."""

    code = "not_found"
    http_status = 404
    fault: Fault = "user"


class Conflict(NemoJobsError):
    """The state of the thing forbids it. Answered with `x-should-retry: false`."""

    code = "conflict"
    http_status = 409
    fault: Fault = "user"


class Unavailable(NemoJobsError):
    """A part of the installation does not answer; the text names it and the remedy."""

    code = "unavailable"
    http_status = 503


class Superseded(NemoJobsError):
    """Another try of this step has taken over; whoever catches this touches nothing more."""

    code = "superseded"


class OutputLost(NemoJobsError):
    """The engine will never hand out the rest of a workload's output; no further try mends that."""

    code = "output_lost"


class BackendError(NemoJobsError):
    """The engine refused or failed."""

    code = "backend_error"


class CapacityError(BackendError):
    """No room in the engine now. Callers wait and say what they wait for."""

    code = "no_capacity"
    fault: Fault = "capacity"


class StartError(BackendError):
    """The workload cannot be started as written.

    :param message: one sentence for `error_details.message`
    :param detail: the engine's or system's own words for `error_details.error`
    """

    code = "start_failed"
    fault: Fault = "user"

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class LostWorkload(BackendError):
    """What we started is gone and nobody can say how it ended."""

    code = "LostWorkload"
