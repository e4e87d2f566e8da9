"""Following a submitted job to its end: its log goes to the task log, how far goes to the record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.client.errors import ApiError, ClientError
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.loglines import LogEnd, WholeLog
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.client.watch import (
    FINAL_STATUSES,
    Event,
    JobEnded,
    LogLines,
    StatusChanged,
    Watch,
    WatchTimeout,
    WatchWarning,
)
from nemo_airflow_provider.remote.calls import Calls, Interrupted, interruptible_sleep
from nemo_airflow_provider.remote.memory import Memory
from nemo_airflow_provider.remote.task import RemoteTask
from nemo_airflow_provider.remote.tasklog import TaskLog
from nemo_airflow_provider.runner import StepFailed, StepHost

#: The same in all tries: upstream's cursor is a number of pages. Marks of two pages are in each record.
PAGE_LINES = 500
#: Upstream 0.8.1 ends a job before its last lines can be read.
_LATE_SECONDS = 5.0


class Follower:
    """See the module."""

    def __init__(
        self,
        task: RemoteTask,
        client: JobsClient,
        host: StepHost,
        memory: Memory,
        call: Calls,
        clock: Callable[[], float],
    ) -> None:
        self._task = task
        self._client = client
        self._host = host
        self._memory = memory
        self._call = call
        self._clock = clock
        self._record = memory.record
        self._log = TaskLog(host, task.max_log_lines, names_steps=task.has_many_steps)
        self._lines = WholeLog(
            client,
            self._record.name,
            workspace=self._record.workspace,
            limit=PAGE_LINES,
            position=self._record.log_position,
        )

    def follow(self) -> dict[str, Any]:
        """The job's last status, once all of its log is written.

        :raises StepFailed: the job is not there any more, or took too long
        :raises ClientError: the server cannot be used
        :raises Interrupted: SIGTERM came
        """
        self._tell_what_is_repeated()
        watch = Watch(
            self._client,
            self._record.name,
            workspace=self._record.workspace,
            lines=self._lines,
            end_statuses=FINAL_STATUSES,
            poll_interval_seconds=self._task.poll_interval_seconds,
            timeout_seconds=self._seconds_left(),
            outage_seconds=self._task.outage_seconds,
            late_seconds=late_seconds,
            clock=self._clock,
            sleep=interruptible_sleep(self._host.terminated),
        )
        try:
            for event in watch.events():
                if self._host.terminated.is_set():
                    raise Interrupted
                self._hear(event)
                if isinstance(event, JobEnded):
                    self._finish()
                    return event.status
        except WatchTimeout:
            self._call(lambda: self._client.cancel_job(self._record.name, workspace=self._record.workspace))
            raise StepFailed(
                f"Job '{self._record.name}' had not ended after {self._task.timeout_seconds:g} seconds "
                "and was cancelled."
            ) from None
        except ApiError as error:
            if error.status != 404:
                raise
            raise StepFailed(f"Job '{self._record.name}' is gone from {self._task.server.url}: {error.text}") from error
        raise AssertionError("a watch ends with the job's end")

    def _tell_what_is_repeated(self) -> None:
        """Lines beyond `max_log_lines` are written at the end only."""
        given = self._record.log_position.given
        written = min(self._record.writing_to or 0, self._task.max_log_lines)
        if written > given:
            self._host.note(
                f"Lines {given + 1} to {written} were being written when the try before ended: "
                "its log may hold some of them too."
            )

    def _hear(self, event: Event) -> None:
        if isinstance(event, StatusChanged):
            self._check_identity(event.status)
            self._host.note(f"Job '{self._record.name}' is {event.status['status']}")
        elif isinstance(event, LogLines):
            position = self._lines.position
            self._memory.writing(position)
            self._log.write(event.rows, position.given - len(event.rows) + 1)
            self._memory.written(position)
        elif isinstance(event, WatchWarning):
            self._host.note(f"{event.message}. Trying again.")

    def _check_identity(self, status: dict[str, Any]) -> None:
        found = status.get("id")
        if None not in (found, self._record.id) and found != self._record.id:
            raise StepFailed(
                f"Job '{self._record.name}' is another one now: this task's was {self._record.id}, that is {found}."
            )

    def _finish(self) -> None:
        job, workspace = self._record.name, self._record.workspace
        how = f"`nemo --base-url {self._task.server.url} jobs get-logs {job} --workspace {workspace} --all-pages`"
        last = self._lines.position.given
        missing = max(0, self._lines.total - last)
        self._log.finish(last, how, lambda lines: self._reread(lines, missing))
        if missing:
            self._host.note(f"{missing} lines came too late to stand in order here; {how} shows them.")

    def _reread(self, lines: int, missing: int) -> list[JsonObject]:
        """So many lines, before the last ones that are `missing`; none when the log cannot be had."""
        end = LogEnd(self._client, self._record.name, workspace=self._record.workspace, lines=lines + missing)
        try:
            rows = self._call(lambda: [row for chunk in end.drain() for row in chunk])
        except ClientError as error:
            self._host.note(f"The last lines cannot be read again: {self._task.server.explain(error)}")
            return []
        return rows[: len(rows) - missing]

    def _seconds_left(self) -> float | None:
        began = self._record.submitted_at
        if self._task.timeout_seconds is None or began is None:
            return None
        return max(0.0, self._task.timeout_seconds - (datetime.now(UTC) - began).total_seconds())


def late_seconds(status: dict[str, Any]) -> float:
    """How long after the end lines may still appear. Those of this package's own API are there before the end is.

    The two are told apart by their times, which upstream gives without a zone.
    """
    try:
        moment = datetime.fromisoformat(str(status.get("created_at")))
    except ValueError:
        return _LATE_SECONDS
    return 0.0 if moment.tzinfo else _LATE_SECONDS
