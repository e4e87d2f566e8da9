"""What came back: read up to a limit, parsed, or turned into an error."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.client.address import without_credentials
from nemo_airflow_provider.client.errors import ApiError, BadAnswer

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 64 * 1024 * 1024
_LONGEST_WAIT_SECONDS = 60.0


def read(response: httpx.Response) -> bytes:
    """The whole body, decompressed.

    :raises BadAnswer: it is larger than 64 MiB
    :raises httpx.RequestError: the connection broke off
    """
    announced = response.headers.get("content-length", "")
    content = bytearray()
    if not announced.isdecimal() or int(announced) <= _MOST_BYTES:
        for piece in response.iter_bytes():
            content += piece
            if len(content) > _MOST_BYTES:
                break
        else:
            return bytes(content)
    raise _bad(response, f"the answer is larger than {_MOST_BYTES // 1024**2} MiB; ask for fewer rows or lines at once")


def parsed(response: httpx.Response, content: bytes) -> Any:
    """The answer's JSON; None for an answer without a body.

    :raises BadAnswer: it is no JSON
    """
    if response.status_code == 204 or not content:
        return None
    try:
        return json.loads(content)
    except RecursionError as error:
        raise _bad(response, "the answer is nested too deeply") from error
    except ValueError as error:
        kind = response.headers.get("content-type", "no content type").split(";")[0]
        raise _bad(response, f"the answer is {kind}, not JSON; the base URL may not be that of the jobs API") from error


def refusal(response: httpx.Response, content: bytes) -> ApiError:
    """The error that an answer of 400 or above stands for."""
    try:
        body = json.loads(content)
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
    except (TypeError, ValueError):
        return -1.0
