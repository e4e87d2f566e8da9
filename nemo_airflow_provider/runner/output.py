"""A workload's output while its step runs: pumped into the log store, mirrored from there into the task log."""

from __future__ import annotations

import time
from datetime import datetime
from types import TracebackType

from nemo_airflow_provider.backends.base import Backend, Signal
from nemo_airflow_provider.logs.mirror import Mirror
from nemo_airflow_provider.logs.pump import Pump
from nemo_airflow_provider.logs.store import line_count
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import now
from nemo_airflow_provider.runner.secrets import StepSecrets
from nemo_airflow_provider.runner.task import StepHost, StepTask

#: Sentences of the engine in a task's log; a scheduler that is asked all day finds more.
_MOST_NOTES = 20


class Output:
    """Pump and mirror of one start; both threads end with the `with` block."""

    def __init__(
        self, task: StepTask, host: StepHost, backend: Backend, key: WorkloadKey, secrets: StepSecrets
    ) -> None:
        self._task = task
        self._host = host
        self._secrets = secrets
        #: Whether it is known what to hide, and output is being stored.
        self.pumping = False
        self._noted: set[str] = set()
        self._pump = Pump(
            lambda position, stop: backend.read_logs(key, position, stop),
            task.storage,
            task.stream,
            key.start,
            stderr_prefix=backend.stderr_prefix,
        )
        self._mirror = Mirror(task.storage, task.stream, host.emit, lines=task.task_log_max_lines)

    def __enter__(self) -> Output:
        self.attend()
        self._mirror.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pumping:
            self._pump.stop()
            self._pump.join(2.0)
        summary = self._mirror.finish(1.0)
        if summary.not_mirrored:
            self._host.note(f"{summary.not_mirrored} of {summary.lines} lines are not shown here. {self._elsewhere}")

    @property
    def _elsewhere(self) -> str:
        """Where the whole output is."""
        task = self._task
        if not task.listed:
            return (
                f"They are all in the files of {task.stream.path(task.storage)}; [nemo] task_log_max_lines shows more."
            )
        return (
            f"Read them all with: nemo jobs get-logs {task.job_name} --workspace {task.workspace} "
            f"--step-id {task.step.name} --all-pages"
        )

    def attend(self, note: str | None = None) -> None:
        """Begin to store the output once it is known what to hide in it; to be called until all is stored.

        :param note: see `Observation.note`; each goes into the task log once
        """
        mask = self._secrets.mask()
        if mask is None:
            return
        if not self.pumping:
            self._pump.start(mask)
            self.pumping = True
        if note is not None and note not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(note)
            self._host.note(str(mask.value(note)))

    @property
    def trouble(self) -> str | None:
        """What keeps the output from being stored right now, as a sentence."""
        if self._pump.waiting:
            return "Waiting for the earlier try of this step to let go of its log"
        return self._pump.trouble if self.pumping else self._secrets.trouble

    @property
    def lost(self) -> str | None:
        """Why the rest of the output can never be stored; None as long as it can."""
        return None if self._pump.error is None else f"The rest of the output is not stored: {self._pump.error}"

    def wait_complete(self, seconds: float, wake: Signal | None) -> bool:
        """Whether all output is stored that can be; waits at most `seconds`, less when `wake` is set."""
        deadline = time.monotonic() + seconds
        while not self._pump.finished and self._pump.error is None:
            if time.monotonic() > deadline or (wake is not None and wake.is_set()):
                return False
            self.attend()
            if self.pumping:
                self._pump.join(0.005)
            else:
                time.sleep(0.05)
        return True

    def last_sign(self) -> datetime | None:
        """When the step printed its newest stored line; now while output waits to be stored, as nobody can tell."""
        if self.trouble or self.lost:
            return now()
        total = line_count(self._task.storage, self._task.stream)
        lines = read_from(self._task.storage, self._task.stream, total - 1, 1) if total else []
        return datetime.fromisoformat(lines[0].timestamp) if lines else None

    def last_text(self, characters: int) -> str:
        """The end of what the step printed."""
        total = line_count(self._task.storage, self._task.stream)
        lines = read_from(self._task.storage, self._task.stream, max(0, total - 200), 200)
        return "\n".join(line.message for line in lines)[-characters:]
