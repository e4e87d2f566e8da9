"""Pages of lists and logs: whether they have the right types, and where they lead."""

from __future__ import annotations

from typing import Any, TypeGuard

from nemo_airflow_provider.client.errors import BadAnswer
from nemo_airflow_provider.client.transport import JsonObject


def is_page(answer: Any) -> TypeGuard[JsonObject]:
    """Whether it is `{data: [{…}, …]}`, and numbers where it numbers its pages."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return False
    pagination = answer.get("pagination")
    if pagination is None:
        return True
    return isinstance(pagination, dict) and all(
        isinstance(pagination.get(key, 1), int) for key in ("page", "total_pages")
    )


def is_log_page(page: JsonObject) -> bool:
    """Whether the total of a page is a number and its cursors can be sent back, where it has them."""
    cursors = [page[key] for key in ("next_page", "prev_page") if page.get(key) is not None]
    return isinstance(page.get("total"), int | None) and all(
        isinstance(cursor, str) and cursor.isprintable() for cursor in cursors
    )


def following(page: JsonObject, key: str, cursor: str | None) -> str:
    """The cursor `key` of a log page that was read at `cursor`.

    :raises BadAnswer: it is the same one, so that reading on would never end
    """
    if page[key] == cursor:
        raise BadAnswer(f"a page of the log leads to itself: `{key}` is the cursor it was read with, {cursor!r}")
    return str(page[key])
