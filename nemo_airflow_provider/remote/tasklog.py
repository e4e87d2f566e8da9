"""The job's lines in Airflow's task log: all of a short log, the first and the last ones of a long one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from nemo_airflow_provider.client.moments import moment_of
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.model.logline import LogLine, micros_of
from nemo_airflow_provider.runner import StepHost


class TaskLog:
    """Writes rows of a log page.

    :param max_lines: at each end of the log
    :param names_steps: whether lines begin with their step
    """

    def __init__(self, host: StepHost, max_lines: int, *, names_steps: bool) -> None:
        self._host = host
        self._max_lines = max_lines
        self._names_steps = names_steps
        self._held: deque[LogLine] = deque(maxlen=max_lines)
        self._told = False

    def write(self, rows: Sequence[JsonObject], first: int) -> None:
        """Write them, or hold them back for the end.

        :param first: number of the first one in the job's log, from 1
        """
        for seq, row in enumerate(rows, first):
            line = self._line(row, seq)
            if seq <= self._max_lines:
                self._host.emit(line)
            else:
                self._tell()
                self._held.append(line)

    def finish(self, last: int, how_to_read: str, tail: Callable[[int], Sequence[JsonObject]]) -> None:
        """Write what was held back, and say how many lines are left out.

        :param last: number of the last line that was given, in this try or an earlier one
        :param how_to_read: the whole log, for people
        :param tail: reads lines again: so many, the last of which is `last`; fewer when there are no more
        """
        if last <= self._max_lines:
            return
        first = max(self._max_lines, last - self._max_lines) + 1
        if len(self._held) < last - first + 1:  # what an earlier try held back went with it
            rows = tail(last - first + 1)
            self._held.extend(self._line(row, seq) for seq, row in enumerate(rows, last - len(rows) + 1))
        left_out = last - self._max_lines - len(self._held)
        if left_out:
            self._host.note(f"{left_out} lines are left out here; {how_to_read} shows all of them.")
        while self._held:
            self._host.emit(self._held.popleft())

    def _tell(self) -> None:
        if not self._told and self._max_lines:
            self._host.note(f"Of the lines after the first {self._max_lines}, the last ones follow at the end.")
        self._told = True

    def _line(self, row: JsonObject, seq: int) -> LogLine:
        message = str(row.get("message", ""))
        return LogLine(
            seq=seq,
            micros=micros_of(moment_of(row.get("timestamp")).isoformat()),
            task=str(row.get("job_task", "")),
            stream="stderr" if row.get("stream") == "stderr" else "stdout",
            message=f"{row.get('job_step')} | {message}" if self._names_steps else message,
        )
