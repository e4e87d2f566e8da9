"""A job's log: which streams make it, and pages of them as the wire shows them (REST contract §6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_airflow_provider.logs.reader import LogPage, LogReader, StreamView
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.model import names
from nemo_airflow_provider.service.view import JobView


class JobLog:
    """The log of one job, narrowed to an attempt, a step, a task.

    :param attempt: attempt id, sequence number or `current`; None is the current one
    :param step: step name or id
    :param task: task name or id
    """

    def __init__(self, root: Path, view: JobView, *, attempt: str | None, step: str | None, task: str | None) -> None:
        self._reader = LogReader(root)
        self._view = view
        self._task = task and _task_name(view, task)
        self._streams = self._narrowed(attempt, step)
        self._scope = f"{view.id}\n{self._attempt(attempt)}\n{step or ''}\n{self._task or ''}"

    def page(self, limit: int, cursor: str | None) -> dict[str, Any]:
        """A page from a cursor, or from the start."""
        page = self._reader.page(self._streams, task=self._task, limit=limit, cursor=cursor, scope=self._scope)
        return self._shown(page)

    def tail(self, lines: int) -> dict[str, Any]:
        """The last lines."""
        return self._shown(self._reader.tail(self._streams, task=self._task, lines=lines, scope=self._scope))

    def _attempt(self, attempt: str | None) -> int | None:
        """The attempt's number; None when there is no such attempt."""
        current = self._view.run.clear_number
        if attempt in (None, "", "current"):
            return current
        assert attempt is not None
        if attempt.isascii() and attempt.isdigit() and len(attempt) < 10:
            return int(attempt)
        return names.attempt_number_of(self._view.key, attempt)

    def _narrowed(self, attempt: str | None, step: str | None) -> list[StreamView]:
        if self._attempt(attempt) != self._view.run.clear_number:
            return []
        return [
            StreamView(
                attempt=self._view.run.clear_number,
                step_index=item.index,
                step=item.spec.name,
                stream=StreamId(self._view.workspace, self._view.key, item.index, item.generation),
            )
            for item in self._view.all_steps
            if step is None or step in (item.spec.name, item.id)
        ]

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
