"""One request and its answer: URL, token, retries, and errors as ours. Knows no endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from nemo_airflow_provider.client.address import check_address, without_credentials
from nemo_airflow_provider.client.errors import ApiError, BadAnswer, ConnectionFailed, TimedOut

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

JsonObject = dict[str, Any]

DEFAULT_BASE_URL = "http://localhost:8080"
DEFAULT_WORKSPACE = "default"

_TIMEOUT_SECONDS = 60.0
_CONNECT_TIMEOUT_SECONDS = 5.0
_RETRIES = 2
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 60.0
_RETRIED_STATUSES = frozenset({408, 409, 429})


class Transport:
    """An HTTP connection to one server.

    :param base_url: may hold a path prefix
    :param token: sent as Bearer
    :param certificate_authority: path of a PEM bundle to trust instead of the usual ones
    :param follow_redirects: False where what is sent must not go anywhere else; a redirect is then `BadAnswer`
    :param sleep: called with the seconds between two tries
    :raises CleartextToken: a token, and plain http to another machine
    """

    def __init__(
        self,
        base_url: str = DEFAULT_BASE_URL,
        *,
        token: str | None = None,
        certificate_authority: str | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        follow_redirects: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_address(base_url, has_secret=bool(token))
        self.base_url = base_url.rstrip("/")
        #: The base URL without user and password, for people.
        self.display_url = without_credentials(self.base_url)
        # Here and not at the top: a third of the command line's start-up, and `nemo --help` needs none of it.
        import httpx

        from nemo_airflow_provider.client.tls import trust

        self._sleep = sleep
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else None,
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_TIMEOUT_SECONDS)),
            follow_redirects=follow_redirects,
            verify=trust(self.base_url, certificate_authority),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The answer's JSON; None for an answer without a body.

        Tried at most three times. A POST that may have reached the server is repeated only when the server
        says so (`x-should-retry: true`): a repeated create would meet its own job as a conflict.

        :param query: parameters whose value is None are left out
        :raises ClientError: see there
        """
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        retrying = Retrying(
            stop=stop_after_attempt(1 + _RETRIES),
            wait=_wait_seconds,
            retry=retry_if_exception(_may_repeat),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(self._once, method, path, query, body)

    def _once(self, method: str, path: str, query: Mapping[str, Any] | None, body: Any) -> Any:
        import httpx

        request = self._http.build_request(
            method,
            self.base_url + path,
            params={key: value for key, value in (query or {}).items() if value is not None},
            json=body,
        )
        url = without_credentials(str(request.url))
        try:
            response = self._http.send(request)
        except httpx.TimeoutException as error:
            sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            raise TimedOut(_cause(error), method=method, url=url, sent=sent) from error
        except (httpx.DecodingError, httpx.TooManyRedirects) as error:
            raise BadAnswer(_cause(error), method=method, url=url) from error
        except httpx.RequestError as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
            raise ConnectionFailed(_cause(error), method=method, url=url, sent=sent) from error
        if response.status_code >= 400:
            raise _api_error(response)
        if response.next_request is not None:
            target = without_credentials(str(response.next_request.url))
            raise BadAnswer(f"the server redirects to {target}, where this may not be sent", method=method, url=url)
        return _json_of(response)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _api_error(response: httpx.Response) -> ApiError:
    try:
        body = response.json()
    except ValueError:
        body = None
    detail = body.get("detail", body) if isinstance(body, dict) else body
    said = response.headers.get("x-should-retry", "").strip().lower()
    return ApiError(
        response.status_code,
        detail,
        method=response.request.method,
        url=without_credentials(str(response.request.url)),
        retry={"true": True, "false": False}.get(said),
        retry_after_seconds=_retry_after_seconds(response.headers),
    )


def _json_of(response: httpx.Response) -> Any:
    if response.status_code == 204 or not response.content:
        return None
    try:
        return response.json()
    except ValueError as error:
        kind = response.headers.get("content-type", "no content type").split(";")[0]
        raise BadAnswer(
            f"the answer is {kind}, not JSON; the base URL may not be that of the jobs API",
            method=response.request.method,
            url=without_credentials(str(response.request.url)),
        ) from error


def _may_repeat(error: BaseException) -> bool:
    if isinstance(error, ApiError):
        if error.retry is not None:
            return error.retry
        repeated = error.status in _RETRIED_STATUSES or error.status >= 500
        # 429 says that nothing was done; any other answer to a POST leaves it open.
        return repeated and (error.method != "POST" or error.status == 429)
    if isinstance(error, ConnectionFailed):
        return bool(error.url) and not (error.sent and error.method == "POST")
    return False


def _wait_seconds(state: RetryCallState) -> float:
    outcome = state.outcome
    error = outcome.exception() if outcome is not None else None
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return cast(float, _FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What `retry-after-ms` or `retry-after` ask for; None when absent, unreadable or over a minute."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except KeyError:
            continue
        except ValueError:
            seconds = _seconds_until(headers[name])
        if 0 <= seconds <= _LONGEST_WAIT_SECONDS:
            return seconds
    return None


def _seconds_until(http_date: str) -> float:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(http_date).timestamp() - time.time()
    except (TypeError, ValueError):
        return -1.0
