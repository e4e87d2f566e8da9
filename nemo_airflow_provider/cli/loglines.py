"""Rows of a job's log as lines for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from nemo_airflow_provider.cli.terminal import clean_line, is_terminal, write
from nemo_airflow_provider.client.moments import parse_moment
from nemo_airflow_provider.client.transport import JsonObject

_NO_TIME = "--:--:--"


def log_line(row: JsonObject) -> str:
    """`[local time] step/task | message` of one row of a log page."""
    clock = _local_time(str(row.get("timestamp")))
    scope = "/".join(str(part) for part in (row.get("job_step"), row.get("job_task")) if part)
    return f"[{clock}] {scope} | {row.get('message', '')}" if scope else f"[{clock}] {row.get('message', '')}"


def print_log_lines(rows: Iterable[JsonObject], stream: TextIO) -> None:
    """Rows of a log page as lines, harmless on a terminal."""
    lines = (log_line(row) for row in rows)
    if is_terminal(stream):
        lines = (clean_line(line) for line in lines)
    text = "".join(f"{line}\n" for line in lines)
    if text:
        write(stream, text)


def _local_time(moment: str) -> str:
    parsed = parse_moment(moment)
    try:
        return parsed.astimezone().strftime("%H:%M:%S") if parsed else _NO_TIME
    except (OverflowError, ValueError):  # the first or last day of the calendar, which is another one here
        return _NO_TIME
