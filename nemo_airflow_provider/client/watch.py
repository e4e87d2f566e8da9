"""Following a job to its end: status changes and log lines as a stream of events. Prints nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from nemo_airflow_provider.client.errors import ApiError, ClientError, ConnectionFailed, TimedOut, is_transient
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.loglines import LineSource
from nemo_airflow_provider.client.pace import BackOff, Patience, Poll
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.errors import NemoJobsError

#: Nothing more happens after these.
FINAL_STATUSES = frozenset({"completed", "error", "cancelled"})
#: Where a watch ends: a paused job may go on some day, but not by itself.
END_STATUSES = FINAL_STATUSES | {"paused"}

_FINAL_DRAIN_FAILURES = 3
#: A log may grow as fast as it is read; the status is looked at meanwhile.
_LONGEST_DRAIN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The job has another status than before; `status` is the whole answer."""

    status: JsonObject


@dataclass(frozen=True, slots=True)
class LogLines:
    """New lines, oldest first, as the server gives them."""

    rows: list[JsonObject]


@dataclass(frozen=True, slots=True)
class WatchWarning:
    """A failed look that will be repeated."""

    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing to do for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The last event."""

    status: JsonObject


Event = StatusChanged | LogLines | WatchWarning | Waiting | JobEnded


def _never_late(_: JsonObject) -> float:
    return 0.0


class WatchTimeout(NemoJobsError):
    """The time given to a watch is over; the job goes on."""

    code = "watch_timeout"


class Watch:
    """Looks at one job until it ends.

    :param lines: where log lines come from; None for status only
    :param history: whether lines that are there at the first look count
    :param end_statuses: where to stop
    :param poll_interval_seconds: time between two looks; None: from 0.3 s while things happen to 3 s when not
    :param timeout_seconds: give up after that long, also in the middle of a request of `client`
    :param outage_seconds: how long the server may be in trouble, any answer of 500 or above included, before the
        error is raised; a log that cannot be had for so long is given up at the job's end, not before, and raises
        nothing. None: trouble that passes by itself is borne for ever, and a third failure at the end gives the log up
    :param late_seconds: told of the last status, how long after the last new line more of them may appear
    """

    def __init__(
        self,
        client: JobsClient,
        name: str,
        *,
        workspace: str | None = None,
        lines: LineSource | None = None,
        history: bool = True,
        end_statuses: frozenset[str] = END_STATUSES,
        poll_interval_seconds: float | None = None,
        timeout_seconds: float | None = None,
        outage_seconds: float | None = None,
        late_seconds: Callable[[JsonObject], float] = _never_late,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._name = name
        self._workspace = workspace
        self._lines = lines
        self._discard = not history
        self._end_statuses = end_statuses
        self._poll = Poll(poll_interval_seconds)
        self._clock = clock
        self._sleep = sleep
        self._deadline = math.inf if timeout_seconds is None else clock() + timeout_seconds
        self._status_trouble = BackOff(self._poll)
        self._log_trouble = BackOff(self._poll)
        self._status_patience = Patience(outage_seconds, clock)
        self._log_patience = Patience(outage_seconds, clock)
        self._late_seconds = late_seconds
        self._last_news = clock()

    def events(self) -> Iterator[Event]:
        """What happens, as it happens; ends with `JobEnded`.

        :raises WatchTimeout: the job had not ended in time
        :raises ClientError: a look failed in a way that waiting does not heal
        """
        shown: str | None = None
        failures = 0
        while True:
            self._check_deadline()
            status = yield from self._look()
            if status is None:
                continue
            if status["status"] != shown:
                shown = status["status"]
                self._hear()
                yield StatusChanged(status)
            has_ended = shown in self._end_statuses
            pause = yield from self._drain(until_done=has_ended)
            failures = failures + 1 if has_ended and pause is not None else 0
            if failures and self._gives_up(failures):
                yield WatchWarning(
                    f"Terminal log drain retry cap reached ({failures}); stopping watch for job {self._name!r}"
                )
            if has_ended and (self._gives_up(failures) if failures else self._has_all(status)):
                yield JobEnded(status)
                return
            yield from self._wait(self._poll.next_seconds() if pause is None else pause)

    def _hear(self) -> None:
        """Something happens: look again soon."""
        self._poll.quicken()
        self._last_news = self._clock()

    def _has_all(self, status: JsonObject) -> bool:
        """Whether no more lines are to be expected of a job that has ended."""
        return self._lines is None or self._clock() - self._last_news >= self._late_seconds(status)

    def _gives_up(self, failures: int) -> bool:
        """Whether the last lines cannot be had."""
        if self._log_patience.seconds is None:
            return failures == _FINAL_DRAIN_FAILURES
        return self._log_patience.is_used_up

    def _look(self) -> Generator[Event, None, JsonObject | None]:
        """The job's status; None after waiting because it could not be had."""
        try:
            with self._client.within(self._seconds_left):
                status = self._client.get_job_status(self._name, workspace=self._workspace)
        except ClientError as error:
            self._check_cut(error)
            if not self._status_patience.bears(error):
                raise
            message, pause = self._status_trouble.again(f"Transient status check failed: {error}")
            if message:
                yield WatchWarning(message)
            yield from self._wait(pause)
            return None
        self._status_trouble.over()
        self._status_patience.over()
        return status

    def _drain(self, *, until_done: bool) -> Generator[Event, None, float | None]:
        """None when all lines were read, else the seconds to wait before the next try.

        :param until_done: read to the end, however long that takes
        :raises WatchTimeout: it took too long
        """
        if self._lines is None:
            return None
        began = self._clock()
        try:
            drain = self._lines.drain()
            while (rows := self._next(drain)) is not None:
                self._hear()
                if not self._discard:
                    yield LogLines(rows)
                self._check_deadline()
                if not until_done and self._clock() - began >= _LONGEST_DRAIN_SECONDS:
                    return 0.0
        except (ApiError, ConnectionFailed) as error:
            self._check_cut(error)
            self._log_patience.bears(error)
            kind = "Transient log check failed" if is_transient(error) else "Log check failed"
            message, pause = self._log_trouble.again(f"{kind}: {error}")
            if message:
                yield WatchWarning(message)
            return pause
        self._discard = False
        self._log_trouble.over()
        self._log_patience.over()
        return None

    def _next(self, drain: Iterator[list[JsonObject]]) -> list[JsonObject] | None:
        with self._client.within(self._seconds_left):
            return next(drain, None)

    def _wait(self, seconds: float) -> Iterator[Event]:
        seconds = min(seconds, self._seconds_left)
        yield Waiting(seconds)
        self._sleep(seconds)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self._deadline - self._clock())

    def _check_cut(self, error: ClientError) -> None:
        """An answer that our own time has cut off says nothing of the server.

        :raises WatchTimeout: it was that
        """
        if isinstance(error, TimedOut):
            self._check_deadline()

    def _check_deadline(self) -> None:
        if self._seconds_left == 0:
            raise WatchTimeout(f"Timed out watching job {self._name!r}")
