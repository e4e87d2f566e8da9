"""A value inside a JSON column as text, on every database that Airflow runs on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func
from sqlalchemy.orm import Session


def json_text(session: Session, column: Any, *path: str) -> ColumnElement[Any]:
    """The value under a path of keys; null where there is none.

    Python writes NaN and infinity into SQLite's text; one such row, made through Airflow's own door, would fail the
    whole query there. Postgres refuses to store it.
    """
    value: ColumnElement[Any] = column[path].as_string()
    if session.get_bind().dialect.name != "sqlite":
        return value
    return case((func.json_valid(column) == 1, value), else_=None)
