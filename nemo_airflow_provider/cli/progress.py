"""A watched job as lines: its status changes, its output, its end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TextIO

from nemo_airflow_provider.cli.loglines import print_log_lines
from nemo_airflow_provider.cli.terminal import Terminal, clean_line, is_terminal, write
from nemo_airflow_provider.client.errors import ApiError
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.client.watch import (
    END_STATUSES,
    FINAL_STATUSES,
    Event,
    JobEnded,
    LogLines,
    StatusChanged,
    Waiting,
    WatchTimeout,
    WatchWarning,
)

INTERRUPTED = 130

_MOST_DETAILS = 6
# Where a step runs is for `get-status`.
_PLACES = ("pid", "pgid")
_PLACE_ENDINGS = ("_dir", "_path")
_COLOURS = {"completed": "green", "error": "red", "cancelled": "red", "paused": "red"}


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

    The status that a job ends with is shown after its last lines, which are read when it is known.

    :param stream: where status and log lines go; warnings and the reason of an early end go to stderr
    :param workspace: as it was asked for, to name the commands that go on from here
    """

    def __init__(self, name: str, terminal: Terminal, stream: TextIO, *, workspace: str | None = None) -> None:
        self._name = name
        self._terminal = terminal
        self._stream = stream
        self._workspace = workspace
        self._last: JsonObject | None = None
        self._withheld: StatusChanged | None = None

    def follow(self, events: Iterable[Event]) -> int:
        """Show everything until the end; the exit code."""
        try:
            for event in events:
                if isinstance(event, JobEnded):
                    self._show_withheld()
                    return self._end(event.status)
                self._show(event)
        except KeyboardInterrupt:
            self._terminal.note(self._interrupted(), colour="yellow")
            if self._last is None or self._last["status"] not in FINAL_STATUSES:
                self._terminal.note(what_goes_on(self._name, self._workspace))
            return INTERRUPTED
        except WatchTimeout as error:
            self._show_withheld()
            self._terminal.note(str(error), colour="red")
        except ApiError as error:
            if error.status != 404:
                raise
            self._terminal.note(error.text, colour="red")
        return 1

    def _show(self, event: Event) -> None:
        if isinstance(event, StatusChanged):
            self._show_withheld()
            self._last = event.status
            self._withheld = event
            if event.status["status"] not in END_STATUSES:
                self._show_withheld()
        elif isinstance(event, LogLines):
            print_log_lines(event.rows, self._stream)
        elif isinstance(event, WatchWarning):
            self._terminal.note(f"[{now()}] {event.message}", colour="yellow")

    def _show_withheld(self) -> None:
        if self._withheld is not None:
            status, self._withheld = self._withheld.status, None
            self._line(f"[{now()}] Status: {status_text(status)}", _colour(status))

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
        # Without the details, which may be those of a step before.
        return f"Interrupted watching job '{self._name}'; last known status: {self._last['status']}. Exiting."


class WaitView:
    """Shows a wait without log lines, all of it on stderr.

    :param timeout_seconds: shown only
    :param poll_interval_seconds: shown only; None where it adapts itself
    :param workspace: as for `WatchView`
    """

    def __init__(
        self,
        name: str,
        terminal: Terminal,
        *,
        timeout_seconds: int,
        poll_interval_seconds: float | None,
        workspace: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._workspace = workspace
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
            self._note(f"Interrupted waiting; last known status: {self._status}.", "yellow")
            self._note(what_goes_on(self._name, self._workspace))
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


def what_goes_on(name: str, workspace: str | None) -> str:
    """That a job does not end with who watches it, and how to follow or end it.

    :param workspace: None where the one in force is meant
    """
    where = f" --workspace {shlex.quote(workspace)}" if workspace else ""
    job = f"{shlex.quote(name)}{where}"
    return f"The job goes on. Follow it with nemo jobs watch {job}, end it with nemo jobs cancel {job}."


def now() -> str:
    """The local time of day."""
    return datetime.now().astimezone().strftime("%H:%M:%S")


def _colour(status: JsonObject) -> str:
    return _COLOURS.get(status["status"], "cyan")
