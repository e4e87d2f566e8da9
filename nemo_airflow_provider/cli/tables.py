"""Rows as a table for people, as markdown, as CSV. Pure text in, text out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nemo_airflow_provider.client.moments import parse_moment
from nemo_airflow_provider.client.transport import JsonObject

_LONGEST_CELL = 50
#: Columns whose values are never cut.
WHOLE = frozenset({"name", "id"})

Cells = list[list[str]]


def cells(
    rows: Sequence[JsonObject],
    columns: Sequence[str],
    *,
    truncate: bool,
    relative_to: datetime | None = None,
    whole_seconds: bool = False,
) -> Cells:
    """The text of each cell.

    :param truncate: cut text at 50 characters, names and ids excepted
    :param relative_to: show moments as distances from this one
    :param whole_seconds: show moments to the second, in UTC
    """

    def text(row: JsonObject, column: str) -> str:
        value = row.get(column)
        if isinstance(value, str) and is_moment(column):
            if relative_to is not None:
                value = distance(value, relative_to)
            elif whole_seconds:
                value = to_the_second(value)
        shown = _plain(value)
        if truncate and column not in WHOLE and len(shown) > _LONGEST_CELL:
            return shown[: _LONGEST_CELL - 3] + "..."
        return shown

    return [[text(row, column) for column in columns] for row in rows]


def all_columns(rows: Sequence[JsonObject]) -> list[str]:
    """Every key of every row, in order of appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def distance(moment: str, now: datetime) -> str:
    """`3h ago`, `in 5m`; an unreadable moment as it is. A naive one is UTC, as the API means it."""
    then = parse_moment(moment)
    if then is None:
        return moment
    seconds = int((now - then).total_seconds())
    ahead = seconds < 0
    seconds = abs(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            amount = f"{seconds // size}{unit}"
            break
    else:
        amount = f"{seconds}s"
    return f"in {amount}" if ahead else f"{amount} ago"


def to_the_second(moment: str) -> str:
    """`2026-12-01T10:38:53Z`; an unreadable moment as it is."""
    then = parse_moment(moment)
    return moment if then is None else then.isoformat(timespec="seconds").replace("+00:00", "Z")


def is_moment(column: str) -> bool:
    """Whether a column holds moments."""
    return column.endswith("_at") or column in ("timestamp", "since")


def as_csv(columns: Sequence[str], body: Cells) -> str:
    """RFC 4180 with a header."""
    import csv
    import io

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(body)
    return stream.getvalue().rstrip("\n")


def as_markdown(columns: Sequence[str], body: Cells) -> str:
    """A markdown table with padded columns."""
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in body]
    widths = [max(3, *(len(row[index]) for row in [list(columns), *escaped])) for index in range(len(columns))]

    def line(parts: Sequence[str]) -> str:
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(columns), line(["-" * width for width in widths]), *map(line, escaped)])


def as_table(
    columns: Sequence[str],
    body: Cells,
    *,
    widths: Sequence[int] | None = None,
    fold: bool = True,
) -> str:
    """A table with heavy head.

    :param widths: of the columns; None: as wide as the values need
    :param fold: whether what is longer than its column goes on below; it is cut otherwise
    """
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for index, column in enumerate(columns):
        table.add_column(
            Text(column),
            width=widths[index] if widths else None,
            overflow="fold" if fold else "ellipsis",
            no_wrap=not fold,
        )
    for row in body:
        table.add_row(*(Text(cell) for cell in row))
    stream = io.StringIO()
    console = Console(file=stream, width=10_000, color_system=None, legacy_windows=False)
    console.print(table)
    return stream.getvalue().rstrip("\n")


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
