"""A job's log: which streams make it, and pages of them as the wire shows them (REST contract §6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nemo_airflow_provider.errors import BadRequest
from nemo_airflow_provider.logs.cursor import Cursor, InvalidCursor
from nemo_airflow_provider.logs.reader import LogPage, LogReader, StreamView
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.model import names
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.gateway import Right
from nemo_airflow_provider.service.lookup import Lookup
from nemo_airflow_provider.service.stepview import StepView
from nemo_airflow_provider.service.view import JobView

_DEFAULT_LIMIT = 100
_CURRENT: Literal["current"] = "current"


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines of a job's log.

    :param limit: lines a page
    :param tail: the last lines instead, that many
    :param cursor: where the page begins
    :param attempt: attempt id, sequence number or `current`; None is the current one
    :param step: step name or id
    :param task: task name or id
    """

    limit: int | None = None
    tail: int | None = None
    cursor: str | None = None
    attempt: str | None = None
    step: str | None = None
    task: str | None = None

    def check(self) -> None:
        """
        :raises BadRequest: a combination that has no meaning
        """
        if self.tail is not None and self.limit is not None:
            raise BadRequest("tail cannot be combined with limit; tail controls the returned log window size.")
        if self.tail is not None and self.cursor is not None:
            raise BadRequest(
                "tail cannot be combined with page_cursor; pass the returned prev_page as page_cursor without tail."
            )


class Logs:
    """The logs of one caller's jobs."""

    def __init__(self, lookup: Lookup, access: Access, storage: Path) -> None:
        self._lookup = lookup
        self._access = access
        self._storage = storage

    def page(self, workspace: str, job: str, request: LogRequest) -> dict[str, Any]:
        """A page of a job's log.

        :raises NotFound: no such job
        :raises Forbidden: the caller may see the job but not its log
        :raises BadRequest: see `LogRequest.check`
        :raises InvalidJob: not a cursor, or one for other lines
        """
        request.check()
        view = self._lookup.job(workspace, job)
        self._access.require(Right.READ_LOGS, workspace, view.run.dag_id)
        log = JobLog(self._storage, view, attempt=request.attempt, step=request.step, task=request.task)
        if request.tail is not None:
            return log.tail(request.tail)
        return log.page(request.limit or _DEFAULT_LIMIT, request.cursor)


class JobLog:
    """The log of one job, narrowed to an attempt, a step, a task; see `LogRequest`."""

    def __init__(self, root: Path, view: JobView, *, attempt: str | None, step: str | None, task: str | None) -> None:
        self._reader = LogReader(root)
        self._view = view
        self._task = task and _task_name(view, task)
        asked = _asked(view, attempt)
        self._attempt = view.run.clear_number if asked == _CURRENT else asked
        self._streams = self._narrowed(step)
        # The attempt as it was asked for: a cursor of the current one must outlive its becoming an earlier one, to
        # be told so.
        self._scope = f"{view.id}\n{asked}\n{step or ''}\n{self._task or ''}"

    def page(self, limit: int, cursor: str | None) -> dict[str, Any]:
        """A page from a cursor, or from the start.

        :raises InvalidCursor: not a cursor, or its attempt is not the current one any more
        :raises CursorMismatch: made for another job, attempt, step or task
        """
        if cursor is not None and Cursor.decode(cursor, self._scope).stream[0] != self._attempt:
            raise InvalidCursor
        page = self._reader.page(self._streams, task=self._task, limit=limit, cursor=cursor, scope=self._scope)
        return self._shown(page)

    def tail(self, lines: int) -> dict[str, Any]:
        """The last lines."""
        return self._shown(self._reader.tail(self._streams, task=self._task, lines=lines, scope=self._scope))

    def _narrowed(self, step: str | None) -> list[StreamView]:
        if self._attempt is None:
            return []
        return [
            StreamView(self._attempt, item.index, item.spec.name, stream)
            for item in self._view.all_steps
            if (stream := self._stream(item)) is not None
            if step is None or step in (item.spec.name, names.step_id(self._view.key, item.index, stream.generation))
        ]

    def _stream(self, step: StepView) -> StreamId | None:
        """The stream that the attempt shows of a step; None when there is none in it."""
        current = self._view.run.clear_number
        assert self._attempt is not None
        if self._attempt > current:
            return None
        generation = step.generation if self._attempt == current else step.generation_in(self._attempt)
        return None if generation is None else StreamId(self._view.workspace, self._view.key, step.index, generation)

    def _shown(self, page: LogPage) -> dict[str, Any]:
        return {
            "data": [
                {
                    "timestamp": line.timestamp,
                    "job": self._view.name,
                    "job_step": stream.step,
                    "job_task": line.task,
                    "message": line.message,
                    "stream": line.stream,
                }
                for stream, line in page.rows
            ],
            "total": page.total,
            "next_page": page.next_page,
            "prev_page": page.prev_page,
        }


def _task_name(view: JobView, task: str) -> str:
    """A task's name out of its name or id."""
    head = f"platform-job-task-{view.key}-"
    return f"task-{task[len(head) :]}" if task.startswith(head) else task


def _asked(view: JobView, attempt: str | None) -> Literal["current"] | int | None:
    """`current`, the number of the attempt that is asked for, or None when there is no such attempt."""
    if attempt is None or attempt in ("", _CURRENT):
        return _CURRENT
    if attempt.isascii() and attempt.isdigit() and len(attempt) < 10:
        return int(attempt)
    return names.attempt_number_of(view.key, attempt)
