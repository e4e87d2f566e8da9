"""Questions to the Airflow that was started here."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import NamedTuple


class Answer(NamedTuple):
    """What came back.

    :param status: of HTTP
    :param content: its media type
    :param body: empty where the status is an error
    """

    status: int
    content: str
    body: bytes


def get(url: str) -> Answer | None:
    """One request, None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return Answer(answer.status, answer.headers.get_content_type(), answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers.get_content_type(), b"")
    except OSError:
        return None
