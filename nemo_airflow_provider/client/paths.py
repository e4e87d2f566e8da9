"""Names as parts of a URL's path."""

from __future__ import annotations

from urllib.parse import quote

from nemo_airflow_provider.client.errors import ClientError, Unsendable


def segment(name: str) -> str:
    """`name` as one part of a path.

    :raises ClientError: a name that would make it another path
    """
    if name in ("", ".", ".."):
        error = ClientError(f"{name!r} is not a name")
        error.exit_code = 2
        raise error
    try:
        return quote(name, safe="@+")
    except UnicodeEncodeError as error:
        raise Unsendable(f"{name!r} is not a name: it is not Unicode text") from error
