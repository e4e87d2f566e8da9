"""What can go wrong between here and the server; a branch of the one error tree.

NemoJobsError
└── ClientError
    ├── ApiError           the server said no
    ├── ConnectionFailed   nobody answered
    ├── TimedOut           nobody answered in time
    ├── BadAnswer          an answer, but not one of the jobs API
    ├── Unsendable         refused here: text that no request can hold
    └── CleartextToken     refused here: the token would travel unencrypted
"""

from __future__ import annotations

from typing import Any

from nemo_airflow_provider.errors import NemoJobsError

_PASSING_STATUSES = frozenset({429, 502, 503, 504})


class ClientError(NemoJobsError):
    """A request that came to nothing.

    :param method: HTTP method of the request
    :param url: its full URL, without credentials
    """

    code = "client_error"
    exit_code = 3

    def __init__(self, message: str, *, method: str = "", url: str = "") -> None:
        super().__init__(message)
        self.method = method
        self.url = url


class ApiError(ClientError):
    """An answer of 400 or above.

    :param detail: `detail` of the answer's body, whatever its shape; None without one
    :param retry: what the server says about trying again (`x-should-retry`); None when it says nothing
    :param retry_after_seconds: when to come back, if the server says so
    """

    code = "api_error"

    def __init__(
        self,
        status: int,
        detail: Any,
        *,
        method: str,
        url: str,
        retry: bool | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.text = detail if isinstance(detail, str) else describe(detail)
        super().__init__(f"({status}) {self.text}".strip(), method=method, url=url)
        self.status = status
        self.detail = detail
        self.retry = retry
        self.retry_after_seconds = retry_after_seconds


class ConnectionFailed(ClientError):
    """No answer came.

    :param sent: whether the request may have reached the server
    """

    code = "connection_failed"

    def __init__(self, message: str, *, method: str = "", url: str = "", sent: bool = False) -> None:
        super().__init__(message, method=method, url=url)
        self.sent = sent


class TimedOut(ConnectionFailed):
    """The answer did not come in time."""

    code = "timed_out"


class BadAnswer(ClientError):
    """Something answered that is not the jobs API, for example a login page with 200."""

    code = "bad_answer"


class Unsendable(ClientError):
    """Text or a token that no request can hold."""

    code = "unsendable"
    exit_code = 2


class CleartextToken(ClientError):
    """A token is sent over https, or over http to this machine, and nowhere else."""

    code = "cleartext_token"
    exit_code = 1


def is_transient(error: ClientError) -> bool:
    """Whether the same request may succeed later: nobody answered, or the server, or a proxy before it, is not up."""
    if isinstance(error, ApiError):
        return error.status in _PASSING_STATUSES
    return isinstance(error, ConnectionFailed) and bool(error.url)


def is_trouble_of_server(error: ClientError) -> bool:
    """As `is_transient`, and whatever else the server says of itself."""
    return is_transient(error) or (isinstance(error, ApiError) and (error.status >= 500 or error.status == 408))


def describe(detail: Any) -> str:
    """One line for the `detail` of an error answer: pydantic's list becomes `field: message; …`."""
    if detail is None:
        return ""
    if isinstance(detail, list) and all(isinstance(item, dict) and "msg" in item for item in detail):
        return "; ".join(_describe_one(item) for item in detail)
    if isinstance(detail, dict):
        for key in ("detail", "message", "title"):
            if isinstance(detail.get(key), str):
                return str(detail[key])
    return str(detail)


def _describe_one(item: dict[str, Any]) -> str:
    location = item.get("loc")
    if not isinstance(location, list):
        location = []
    field = ".".join(str(part) for part in location if part not in ("body", "query"))
    return f"{field}: {item['msg']}" if field else str(item["msg"])
