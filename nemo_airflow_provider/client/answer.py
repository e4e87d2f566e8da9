"""What came back: read up to a limit, parsed, or turned into an error."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.client.address import without_credentials
from nemo_airflow_provider.client.errors import ApiError, BadAnswer

if TYPE_CHECKING:
    import httpx

#: The one coding that `read` takes besides none; for the header `Accept-Encoding`.
CODING = "gzip"
_CODINGS = frozenset({CODING, "x-gzip"})
_NO_CODINGS = frozenset({"", "identity"})
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
#: A job may be nested 100 levels deep; YAML is written with four function calls a level, of the 1000 there are.
_MOST_LEVELS = 150
_LONGEST_WAIT_SECONDS = 60.0


def read(response: httpx.Response, received: Callable[[int], None], most_bytes: int = MOST_BYTES) -> bytes:
    """The whole body, decompressed.

    :param received: called with the size of each piece that has arrived
    :raises BadAnswer: it is larger than `most_bytes`, compressed or not, or in a coding that cannot be read
    :raises httpx.RequestError: the connection broke off
    """
    pieces = _limited(response, received, most_bytes)
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding in _CODINGS:
        pieces = _decompressed(response, pieces)
    elif coding not in _NO_CODINGS:
        raise _bad(response, f"the answer is coded as {coding!r}, which was not asked for")
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > most_bytes:
            raise _too_large(response, most_bytes)
    return bytes(content)


def _limited(response: httpx.Response, received: Callable[[int], None], most_bytes: int) -> Iterator[bytes]:
    """The body as it travels. Its size counts too: there is compressed data without end that nothing comes out of."""
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise _too_large(response, most_bytes)
    size = 0
    for piece in response.iter_raw():
        received(len(piece))
        size += len(piece)
        if size > most_bytes:
            raise _too_large(response, most_bytes)
        yield piece


def _decompressed(response: httpx.Response, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """In pieces of at most 1 MiB. The HTTP library would give all that stands behind a piece at once."""
    gzip = zlib.decompressobj(_GZIP_FORMAT)
    is_empty = True
    for piece in pieces:
        is_empty = False
        plain = None
        # A full piece may have left something inside, also when its input is used up.
        while plain is None or piece or len(plain) == _PIECE_BYTES:
            try:
                plain = gzip.decompress(piece, _PIECE_BYTES)
            except zlib.error as error:
                raise _damaged(response) from error
            yield plain
            piece = gzip.unconsumed_tail
        if gzip.unused_data:
            raise _damaged(response)
    if not is_empty and not gzip.eof:
        raise _damaged(response)


def parsed(response: httpx.Response, content: bytes) -> Any:
    """The answer's JSON; None for an answer without a body.

    :raises BadAnswer: it is no JSON
    """
    if response.status_code == 204 or not content:
        return None
    try:
        return _loaded(content)
    except RecursionError as error:
        raise _bad(response, "the answer is nested too deeply") from error
    except ValueError as error:
        kind = response.headers.get("content-type", "no content type").split(";")[0]
        raise _bad(response, f"the answer is {kind}, not JSON; the base URL may not be that of the jobs API") from error


def refusal(response: httpx.Response, content: bytes) -> ApiError:
    """The error that an answer of 400 or above stands for."""
    try:
        body = _loaded(content)
    except (ValueError, RecursionError):
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


def _loaded(content: bytes) -> Any:
    """JSON that can be printed.

    :raises ValueError: it is no JSON
    :raises RecursionError: it is nested too deeply
    """
    value = json.loads(content)
    level = [value]
    for _ in range(_MOST_LEVELS):
        containers = [part for part in level if isinstance(part, dict | list)]
        if not containers:
            return value
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
    raise RecursionError


def _too_large(response: httpx.Response, most_bytes: int) -> BadAnswer:
    if most_bytes != MOST_BYTES:
        return _bad(response, f"the answer is larger than the {most_bytes} bytes that were asked for")
    most = f"{MOST_BYTES // 1024**2} MiB"
    return _bad(response, f"the answer is larger than {most}; ask for fewer rows or lines at once")


def _damaged(response: httpx.Response) -> BadAnswer:
    return _bad(response, "the compressed answer is damaged")


def _bad(response: httpx.Response, message: str) -> BadAnswer:
    return BadAnswer(message, method=response.request.method, url=without_credentials(str(response.request.url)))


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
    except (OverflowError, TypeError, ValueError):
        return -1.0
