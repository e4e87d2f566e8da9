"""A watched job as lines: its status changes, its output, its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TextIO

from nemo_airflow_provider.cli.tables import parse_moment
from nemo_airflow_provider.cli.terminal import Terminal, clean_line, is_terminal, write
from nemo_airflow_provider.client.errors import ApiError
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.client.watch import (
    Event,
    JobEnded,
    LogLines,
    StatusChanged,
    Waiting,
    WatchTimeout,
    WatchWarning,
)

INTERRUPTED = 130

_NO_TIME = "--:--:--"
_MOST_DETAILS = 6
# Where a step runs is for `get-status`.
_PLACES = ("pid", "pgid")
_PLACE_ENDINGS = ("_dir", "_path")
_COLOURS = {"completed": "green", "error": "red", "cancelled": "red", "paused": "red"}


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


def details_text(details: Any) -> str:
    """Up to six `key=value` of the details that are scalar and not empty; nothing if they are no object."""
    shown = [
        f"{key}={value}"
        for key, value in _mapping(details).items()
        if value not in (None, "") and isinstance(value, str | int | float)
    ]
    return " ".join(shown[:_MOST_DETAILS])


def status_text(status: JsonObject) -> str:
    """The status and the details worth a line."""
    details = _mapping(status.get("status_details"))
    told = {key: value for key, value in details.items() if key not in _PLACES and not key.endswith(_PLACE_ENDINGS)}
    return f"{status['status']} {details_text(told)}".rstrip()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


class WatchView:
    """Shows a watch with its log lines.

    :param stream: where status and log lines go; warnings and the reason of an early end go to stderr
    """

    def __init__(self, name: str, terminal: Terminal, stream: TextIO) -> None:
        self._name = name
        self._terminal = terminal
        self._stream = stream
        self._last: JsonObject | None = None

    def follow(self, events: Iterable[Event]) -> int:
        """Show everything until the end; the exit code."""
        try:
            for event in events:
                if isinstance(event, JobEnded):
                    return self._end(event.status)
                self._show(event)
        except KeyboardInterrupt:
            self._terminal.note(self._interrupted(), colour="yellow")
            return INTERRUPTED
        except WatchTimeout as error:
            self._terminal.note(str(error), colour="red")
        except ApiError as error:
            if error.status != 404:
                raise
            self._terminal.note(error.text, colour="red")
        return 1

    def _show(self, event: Event) -> None:
        if isinstance(event, StatusChanged):
            self._last = event.status
            self._line(f"[{now()}] Status: {status_text(event.status)}", _colour(event.status))
        elif isinstance(event, LogLines):
            print_log_lines(event.rows, self._stream)
        elif isinstance(event, WatchWarning):
            self._terminal.note(f"[{now()}] {event.message}", colour="yellow")

    def _end(self, status: JsonObject) -> int:
        if status["status"] == "completed":
            self._line(f"Job '{self._name}' completed", "green")
            return 0
        reason = details_text(status.get("error_details"))
        text = f"Job '{self._name}' ended with status '{status['status']}'"
        self._line(f"{text}: {reason}" if reason else text, "red")
        return 1

    def _line(self, text: str, colour: str) -> None:
        put = self._terminal.say if self._stream is sys.stdout else self._terminal.note
        put(text, colour=colour)

    def _interrupted(self) -> str:
        if self._last is None:
            return "Interrupted watching; no status received. Exiting."
        return f"Interrupted watching job '{self._name}'; last known status: {status_text(self._last)}. Exiting."


class WaitView:
    """Shows a wait without log lines, all of it on stderr.

    :param timeout_seconds: shown only
    :param poll_interval_seconds: shown only; None where it adapts itself
    """

    def __init__(
        self,
        name: str,
        terminal: Terminal,
        *,
        timeout_seconds: int,
        poll_interval_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._terminal = terminal
        self._timeout = timeout_seconds
        self._poll = poll_interval_seconds
        self._clock = clock
        self._start = clock()
        self._status = "unknown"
        self._live = False

    def follow(self, events: Iterable[Event]) -> int:
        """Show everything until the end; the exit code."""
        self._note(f"Waiting for job '{self._name}' to complete")
        try:
            for event in events:
                if isinstance(event, JobEnded):
                    return self._end(event.status["status"])
                self._show(event)
        except KeyboardInterrupt:
            self._note(f"Interrupted waiting; last known status: {self._status}. The job goes on.")
            return INTERRUPTED
        except WatchTimeout:
            self._note(f"✗ Timeout after {self._seconds()}s. Last status: {self._status}", "red")
        except ApiError as error:
            if error.status != 404:
                raise
            self._note("✗ Job not found", "red")
        return 1

    def _show(self, event: Event) -> None:
        if isinstance(event, StatusChanged):
            self._status = event.status["status"]
            self._note(f"  [{now()}] (+{self._seconds()}s) Status: {status_text(event.status)}")
        elif isinstance(event, WatchWarning):
            self._note(f"  [{now()}] {event.message}", "yellow")
        elif isinstance(event, Waiting) and is_terminal(sys.stderr):
            poll = "adaptive" if self._poll is None else f"{self._poll:g}s"
            text = f"Polling: {self._status} | Timeout: {self._timeout}s | Poll interval: {poll}"
            write(sys.stderr, f"\r\x1b[K{clean_line(text)} | Wait: {self._seconds()}s")
            self._live = True

    def _end(self, status: str) -> int:
        if status == "completed":
            self._note("✓ Job completed!", "green")
            return 0
        self._note(f"✗ Job entered {status} state", "red")
        return 1

    def _note(self, text: str, colour: str | None = None) -> None:
        if self._live:
            write(sys.stderr, "\r\x1b[K")
            self._live = False
        self._terminal.note(text, colour=colour)

    def _seconds(self) -> int:
        return int(self._clock() - self._start)


def now() -> str:
    """The local time of day."""
    return datetime.now().astimezone().strftime("%H:%M:%S")


def _colour(status: JsonObject) -> str:
    return _COLOURS.get(status["status"], "cyan")
