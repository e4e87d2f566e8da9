"""Tokens of Airflow's auth manager. A password travels under the same rule as a token: never in the clear."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nemo_airflow_provider.client.address import check_address
from nemo_airflow_provider.client.errors import ApiError, BadAnswer
from nemo_airflow_provider.client.transport import Transport

#: Makes of a connection the block in which it may be used, such as `Transport.within` so many seconds.
Bounds = Callable[[Transport], AbstractContextManager[Any]]

LOGIN_PATH = "/auth/token/cli"

# In seconds since 1970; the calendar of `datetime` ends a little later, in every time zone.
_LATEST_EXPIRY = 253_000_000_000.0

# What auth managers say that do not hand out tokens for nothing: 400 and 401 of Keycloak's and FAB's, 403 of the
# simple one with users, 404 and 405 where there is no such route, 422 where it wants a body.
_NOT_WITHOUT_PASSWORD = frozenset({400, 401, 403, 404, 405, 422})


def token_without_password(base_url: str, *, certificate_authority: str | None = None) -> str | None:
    """A token where everybody is an administrator; None where a password is needed.

    :raises ClientError: no such server
    """
    with Transport(base_url, certificate_authority=certificate_authority) as transport:
        try:
            return _token_of(transport.request("GET", "/auth/token"), transport)
        except ApiError as error:
            if error.status in _NOT_WITHOUT_PASSWORD:
                return None
            raise
        except BadAnswer:
            # A login page for people.
            return None


def token_for(
    base_url: str,
    username: str,
    password: str,
    *,
    certificate_authority: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
    bounds: Bounds = nullcontext,
) -> str:
    """A token with the life that the server gives to command lines. The password goes to `base_url` and no further.

    :param sleep: how waits between tries are spent
    :param bounds: what the request is made within
    :raises ClientError: refused, or no such server
    """
    check_address(base_url, has_secret=True)
    with (
        Transport(
            base_url, certificate_authority=certificate_authority, follow_redirects=False, sleep=sleep
        ) as transport,
        bounds(transport),
    ):
        answer = transport.request("POST", LOGIN_PATH, body={"username": username, "password": password})
        return _token_of(answer, transport)


def expiry(token: str) -> float | None:
    """Seconds since 1970 at which a JWT ends; None for a token that does not say, or names no such moment."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        seconds = float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return seconds if 0 <= seconds <= _LATEST_EXPIRY else None


def lasts(token: str, seconds: float) -> bool:
    """Whether a token says that it will be good for so long; one that does not say is not trusted to be."""
    end = expiry(token)
    return end is not None and end - time.time() >= seconds


def _token_of(answer: Any, transport: Transport) -> str:
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise BadAnswer("the answer holds no access_token", url=transport.display_url)
    return token
