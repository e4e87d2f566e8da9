"""One request and its answer: URL, token, retries, and errors as ours. Knows no endpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from nemo_airflow_provider.client.address import check_address, without_credentials
from nemo_airflow_provider.client.errors import ApiError, BadAnswer, ClientError, ConnectionFailed, TimedOut, Unsendable
from nemo_airflow_provider.client.timelimit import Exchange, TimeLimit

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

JsonObject = dict[str, Any]

DEFAULT_BASE_URL = "http://localhost:8080"
DEFAULT_WORKSPACE = "default"
DEFAULT_TRIES = 3

_TIMEOUT_SECONDS = 60.0
_CONNECT_TIMEOUT_SECONDS = 5.0
_READ_MARGIN_SECONDS = 1.0
_FIRST_WAIT_SECONDS = 0.5
_MOST_REDIRECTS = 20
_EXCERPT_CHARACTERS = 20
_RETRIED_STATUSES = frozenset({408, 409, 429})


class Transport:
    """An HTTP connection to one server.

    :param base_url: may hold a path prefix
    :param token: sent as Bearer
    :param certificate_authority: path of a PEM bundle to trust instead of the usual ones
    :param timeout_seconds: for a whole exchange, from the connection to the answer's last byte, and a second more
        for each 16 KiB that travel
    :param follow_redirects: False where what is sent must not go anywhere else; a redirect is then `BadAnswer`
    :param sleep: called with the seconds between two tries
    :param tries: how often a request is sent at most, where sending it again is harmless
    :raises CleartextToken: a token, and plain http to another machine
    :raises Unsendable: a token that no header can hold
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
        tries: int = DEFAULT_TRIES,
    ) -> None:
        check_address(base_url, has_secret=bool(token))
        _check_token(token or "")
        self.base_url = base_url.rstrip("/")
        #: The base URL without user and password, for people.
        self.display_url = without_credentials(self.base_url)
        # Here and not at the top: a third of the command line's start-up, and `nemo --help` needs none of it.
        import httpx

        from nemo_airflow_provider.client.answer import CODING
        from nemo_airflow_provider.client.tls import trust

        self._sleep = sleep
        self._tries = tries
        self._time_limit = TimeLimit(timeout_seconds)
        self._follows_redirects = follow_redirects
        self._http = httpx.Client(
            headers={"Accept-Encoding": CODING, **({"Authorization": f"Bearer {token}"} if token else {})},
            verify=trust(self.base_url, certificate_authority),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def within(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """A block whose requests end after that, tries and waits between them included, however the answers come."""
        return self._time_limit.within(seconds)

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The answer's JSON; None for an answer without a body.

        Tried at most `tries` times, and not again when the time for one try is over. A POST that may have reached
        the server is repeated only when the server says so (`x-should-retry: true`): a repeated create would meet
        its own job as a conflict.

        :param query: parameters whose value is None are left out
        :raises ClientError: see there
        """
        from nemo_airflow_provider.client import answer

        return answer.parsed(*self._repeated(method, path, query, body, answer.MOST_BYTES))

    def download(self, path: str, *, most_bytes: int) -> bytes:
        """The answer's body as it is, decompressed where it was coded for the way.

        :param most_bytes: a larger one is `BadAnswer`
        :raises ClientError: see there
        """
        _, content = self._repeated("GET", path, None, None, most_bytes)
        return content

    def interrupt(self) -> None:
        """Make the request under way fail as a connection that breaks off. From another thread."""
        self._time_limit.cut()

    def _repeated(self, *request: Any) -> tuple[httpx.Response, bytes]:
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, stop_before_delay

        retrying = Retrying(
            stop=stop_after_attempt(self._tries)
            | stop_after_delay(self._time_limit.seconds)
            | stop_before_delay(self._time_limit.seconds_left),
            wait=_wait_seconds,
            retry=retry_if_exception(_may_repeat),
            sleep=self._sleep,
            reraise=True,
        )
        answered: tuple[httpx.Response, bytes] = retrying(self._once, *request)
        return answered

    def _once(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, most_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        import httpx

        from nemo_airflow_provider.client import answer

        request = self._build(method, path, query, body)
        url = without_credentials(str(request.url))
        if self._time_limit.seconds_left <= 0:
            raise TimedOut("no time is left for the request", method=method, url=url)
        with self._time_limit.exchange(sent_bytes=len(request.content)) as exchange:
            request.extensions["trace"] = exchange.trace
            try:
                with contextlib.closing(self._send(request)) as response:
                    content = answer.read(response, exchange.received, most_bytes)
            except httpx.RequestError as error:
                raise self._failure(error, exchange, method, url) from error
            # The end of a body without a length is that of the connection, whoever ends it.
            if exchange.is_over:
                raise _too_slow(exchange, method, url)
        if response.status_code >= 400:
            raise answer.refusal(response, content)
        if response.next_request is not None:
            target = without_credentials(str(response.next_request.url))
            raise BadAnswer(f"the server redirects to {target}, where this may not be sent", method=method, url=url)
        return response, content

    def _build(self, method: str, path: str, query: Mapping[str, Any] | None, body: Any) -> httpx.Request:
        import httpx

        try:
            return self._http.build_request(
                method,
                self.base_url + path,
                params={key: value for key, value in (query or {}).items() if value is not None},
                json=body,
                timeout=self._timeout(),
            )
        except httpx.InvalidURL as error:
            raise Unsendable(f"the request cannot be sent: {error}") from error
        except UnicodeEncodeError as error:
            excerpt = error.object[max(0, error.start - _EXCERPT_CHARACTERS) : error.end + _EXCERPT_CHARACTERS]
            raise Unsendable(f"the request holds something that is not Unicode text: {excerpt!r}") from error

    def _timeout(self) -> httpx.Timeout:
        """Limits of the single steps, as far as the time limit of the exchange does not see to them."""
        import httpx

        limit = self._time_limit
        # A connection that is not open yet cannot be cut.
        connect = max(0.0, min(limit.seconds, limit.seconds_left, _CONNECT_TIMEOUT_SECONDS))
        # A little more for a read: who sends nothing at all has exceeded the limit of the exchange before.
        return httpx.Timeout(limit.seconds + _READ_MARGIN_SECONDS, connect=connect)

    def _send(self, request: httpx.Request) -> httpx.Response:
        """The answer without its body. The HTTP library would read the bodies of redirects, of any size."""
        for _ in range(1 + _MOST_REDIRECTS):
            response = self._http.send(request, stream=True, follow_redirects=False)
            if response.next_request is None or not self._follows_redirects:
                return response
            response.close()
            request = response.next_request
        raise BadAnswer(
            f"the server redirects more than {_MOST_REDIRECTS} times",
            method=request.method,
            url=without_credentials(str(request.url)),
        )

    def _failure(self, error: httpx.RequestError, exchange: Exchange, method: str, url: str) -> ClientError:
        import httpx

        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return TimedOut(_cause(error), method=method, url=url)
        if exchange.is_over:
            return _too_slow(exchange, method, url)
        if isinstance(error, httpx.TimeoutException):
            message = f"the answer stopped: nothing more came for {self._time_limit.seconds:g} seconds"
            return TimedOut(message, method=method, url=url, sent=True)
        sent = not isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
        return ConnectionFailed(_cause(error), method=method, url=url, sent=sent)


def _check_token(token: str) -> None:
    if not token.isascii() or not token.isprintable():
        raise Unsendable("the token has a character that cannot be sent, such as a line end; get it anew")


def _too_slow(exchange: Exchange, method: str, url: str) -> TimedOut:
    message = f"the whole answer did not come within {round(exchange.allowed_seconds, 1):g} seconds"
    return TimedOut(message, method=method, url=url, sent=True)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _may_repeat(error: BaseException) -> bool:
    if isinstance(error, ApiError):
        if error.retry is not None:
            return error.retry
        repeated = error.status in _RETRIED_STATUSES or error.status >= 500
        # 429 says that nothing was done; any other answer to a POST leaves it open.
        return repeated and (error.method != "POST" or error.status == 429)
    if isinstance(error, ConnectionFailed):
        return bool(error.url) and not (error.sent and (error.method == "POST" or isinstance(error, TimedOut)))
    return False


def _wait_seconds(state: RetryCallState) -> float:
    outcome = state.outcome
    error = outcome.exception() if outcome is not None else None
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return cast(float, _FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))
