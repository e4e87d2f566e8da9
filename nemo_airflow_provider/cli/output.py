"""Answers on stdout in the format asked for, and warnings about them on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from nemo_airflow_provider.cli import tables
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.failures import UsageError
from nemo_airflow_provider.cli.fit import fitted
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.cli.terminal import clean_line, escape, is_terminal, write
from nemo_airflow_provider.client.transport import JsonObject


class ListFormat(StrEnum):
    """Formats of commands that list."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"
    RAW = "raw"
    CODE = "code"


class EntityFormat(StrEnum):
    """Formats of commands that show one thing."""

    JSON = "json"
    YAML = "yaml"
    RAW = "raw"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The output options that every list command has."""

    format: ListFormat | None = None
    no_truncate: bool = False
    columns: str = "default"
    stream: bool = False


def show_entity(session: Session, call: Call, given: EntityFormat | None) -> Any:
    """Make the call and print its answer, which is returned; None where only its code is shown."""
    chosen = entity_format(session, given)
    if chosen is EntityFormat.CODE:
        session.terminal.say(call.snippet(session))
        return None
    answer = call.make(session)
    print_entity(answer, chosen)
    return answer


def entity_format(session: Session, given: EntityFormat | None) -> EntityFormat:
    """The format to use; a table, asked for in general, means json here."""
    if given is not None:
        return given
    chosen = session.output_format
    return EntityFormat(chosen) if chosen in {item.value for item in EntityFormat} else EntityFormat.JSON


def print_entity(answer: Any, chosen: EntityFormat) -> None:
    """The answer in a format that is not code."""
    _print_document(answer, chosen.value)


class Listing:
    """How one list command shows its rows.

    :param columns: of a table, when nobody chose
    """

    def __init__(self, session: Session, options: ListOptions, columns: tuple[str, ...]) -> None:
        self._session = session
        self._options = options
        self._columns = columns
        self._format = self._choose()
        self.streams = options.stream
        #: Columns that the terminal has no room for.
        self._left_out: list[str] = []

    @property
    def wants_code(self) -> bool:
        """Whether Python is wanted instead of the rows."""
        return self._format is ListFormat.CODE

    @property
    def is_drawn(self) -> bool:
        """Whether rows are drawn for people, so that a second table may follow."""
        return self._format in (ListFormat.TABLE, ListFormat.MARKDOWN)

    def show(self, answer: Any, rows: list[JsonObject], *, more: bool = False) -> None:
        """Print an answer.

        :param answer: what json, yaml and raw print
        :param rows: what the other formats print
        :param more: whether there is a page after this one
        """
        if self._options.stream:
            self.stream(rows)
        elif self._format in (ListFormat.JSON, ListFormat.YAML, ListFormat.RAW):
            _print_document(answer, self._format.value)
        else:
            self._print_rows(rows)
        self._warn(more, shows_cells=bool(rows))

    def stream(self, rows: Iterable[JsonObject]) -> None:
        """One JSON object a line, as the rows come."""
        for row in rows:
            _print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))

    def _choose(self) -> ListFormat:
        given = self._options.format
        chosen = given.value if given is not None else self._session.output_format
        if self._options.stream:
            if chosen not in (None, "json", "raw"):
                raise UsageError("--stream prints one JSON object a line: use it with -f json or -f raw.")
            return ListFormat.RAW
        if chosen is None:
            return ListFormat.TABLE if is_terminal(sys.stdout) else ListFormat.JSON
        return ListFormat(chosen)

    @property
    def _truncates(self) -> bool:
        return self._session.truncates and not self._options.no_truncate

    def _print_rows(self, rows: list[JsonObject]) -> None:
        if not rows and self._format is ListFormat.TABLE:
            _print("No data to display")
            return
        columns = self._chosen_columns(rows)
        if self._format is ListFormat.TABLE and is_terminal(sys.stdout):
            self._session.terminal.say(self._fitted(rows, columns))
            return
        now = datetime.now(UTC) if self._session.relative_times else None
        body = tables.cells(rows, columns, truncate=self._truncates, relative_to=now)
        draw = {ListFormat.CSV: tables.as_csv, ListFormat.MARKDOWN: tables.as_markdown}.get(
            self._format, tables.as_table
        )
        self._session.terminal.say(draw(columns, body))

    def _fitted(self, rows: list[JsonObject], columns: list[str]) -> str:
        """A table for the terminal: a row is a line, unless whole values are wanted."""

        def body(**moments: Any) -> tables.Cells:
            cells = tables.cells(rows, columns, truncate=self._truncates, **moments)
            return [[clean_line(cell) for cell in row] for row in cells]

        relative = body(relative_to=datetime.now(UTC))
        if self._session.relative_times:
            bodies = [relative]
        else:
            bodies = [body(whole_seconds=True), relative] if self._truncates else [body()]
        fit = fitted(
            columns,
            bodies,
            shutil.get_terminal_size().columns,
            may_leave_out=self._truncates and self._has_default_columns,
        )
        self._left_out = fit.left_out
        shown = [clean_line(column) for column in fit.columns]
        return tables.as_table(shown, fit.body, widths=fit.widths, fold=not self._truncates)

    @property
    def _has_default_columns(self) -> bool:
        return self._options.columns.strip() in ("", "default")

    def _chosen_columns(self, rows: list[JsonObject]) -> list[str]:
        if self._has_default_columns:
            return list(self._columns)
        chosen = self._options.columns.strip()
        if chosen == "all":
            return tables.all_columns(rows) or list(self._columns)
        return [column.strip() for column in chosen.split(",") if column.strip()]

    def _warn(self, more: bool, *, shows_cells: bool) -> None:
        warnings = []
        if self._format is ListFormat.TABLE and self._truncates and shows_cells:
            warnings.append("Use --no-truncate to see full values.")
        if self._left_out:
            warnings.append(f"No room for {', '.join(self._left_out)}. Use a wider terminal, -c or -f json.")
        if more:
            warnings.append("More pages of results are available! Use --all-pages to fetch all results.")
        if warnings:
            self._session.terminal.note("Warnings:", colour="yellow")
        for warning in warnings:
            self._session.terminal.note(f"  • {warning}", colour="yellow")


def _print_document(answer: Any, chosen: str) -> None:
    if chosen == "yaml":
        import yaml

        text = yaml.safe_dump(answer, sort_keys=False, allow_unicode=True).rstrip("\n")
    else:
        text = json.dumps(answer, ensure_ascii=False, indent=2 if chosen == "json" else None)
    _print(text)


def _print(text: str) -> None:
    """A line of a format whose own escapes can carry control characters."""
    write(sys.stdout, (escape(text) if is_terminal(sys.stdout) else text) + "\n")


def lines_of(pages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The rows of all pages, as they come."""
    for page in pages:
        yield from page["data"]
