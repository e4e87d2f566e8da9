"""An engine and a task process in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.base import (
    Backend,
    BackendConfig,
    Chunk,
    Observation,
    Phase,
    Signal,
    Workload,
)
from nemo_airflow_provider.backends.powers import SupportsFreeze
from nemo_airflow_provider.errors import BackendError, Superseded
from nemo_airflow_provider.model.logline import LogLine
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import INTENT_KEY, Intent, now
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner import StepTask, StoreUnavailable, Wakeup

DAG_ID = "nemo.default.train.00000000"
RUN_AFTER = datetime(2026, 12, 1, tzinfo=UTC)


class FakeConfig(BackendConfig):
    """The common keys alone."""


@dataclass
class Process:
    """A workload of the fake engine; it runs until somebody says how it ends.

    :param waiting: looks at it before it runs, first to last
    """

    output: bytes = b""
    end: Observation | None = None
    waiting: list[Observation] = field(default_factory=list)
    frozen: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class FakeBackend(Backend, SupportsFreeze):
    """Workloads in a dict. `on_submit` decides how each goes; `on_stop` how it ends when asked."""

    def __init__(self) -> None:
        self.engine = "engine-1"
        self.processes: dict[WorkloadKey, Process] = {}
        self.submitted: list[WorkloadKey] = []
        self.stopped: list[tuple[WorkloadKey, float]] = []
        self.cleaned: list[WorkloadKey] = []
        self.looks = 0
        self.ends_when_asked = True
        self.on_submit: Callable[[Workload], Process] = lambda _workload: ended(0)
        self.on_wait: Callable[[WorkloadKey], None] = lambda _key: None
        self.failing: dict[str, int] = {}

    def _answer(self, verb: str) -> None:
        """Fail as often as `failing` says for the verb."""
        if self.failing.get(verb):
            self.failing[verb] -= 1
            raise BackendError("the engine is away")

    def identity(self) -> str:
        self._answer("identity")
        return self.engine

    def find(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        self._answer("find")
        return [other for other in self.processes if (other.run_key, other.step) == (key.run_key, key.step)]

    def submit(self, workload: Workload) -> Mapping[str, Any]:
        self.submitted.append(workload.key)
        self.processes[workload.key] = self.on_submit(workload)
        return {"pid": 7}

    def observe(self, key: WorkloadKey) -> Observation:
        self._answer("observe")
        self.looks += 1
        if key not in self.processes:
            return Observation(Phase.ABSENT)
        process = self.processes[key]
        if process.waiting and not self.stopped:
            return process.waiting.pop(0)
        return process.end or Observation(Phase.RUNNING, frozen=process.frozen)

    def freeze(self, key: WorkloadKey) -> None:
        self._answer("freeze")
        self.processes[key].frozen = True

    def thaw(self, key: WorkloadKey) -> None:
        self._answer("thaw")
        self.processes[key].frozen = False

    def read_logs(self, key: WorkloadKey, position: Any, stop: Signal) -> Iterator[Chunk | None]:
        while not stop.is_set() and key in self.processes and self.processes[key].end is None:
            yield None
            stop.wait(0.005)
        output = self.processes[key].output if key in self.processes else b""
        done = int(position or 0)
        if output[done:]:
            yield Chunk(key.task, "stdout", 1_000_000, output[done:], done, len(output))

    def stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        self._answer("stop")
        self.stopped.append((key, grace_seconds))
        if self.ends_when_asked and key in self.processes and self.processes[key].end is None:
            self.processes[key].end = Observation(Phase.ENDED, exit_code=-15, stopped="asked")

    def cleanup(self, key: WorkloadKey) -> None:
        self._answer("cleanup")
        self.cleaned.append(key)

    def wait(self, key: WorkloadKey, seconds: float, wake: Signal) -> None:
        self.on_wait(key)
        wake.wait(0.005)


def ended(code: int, output: bytes = b"") -> Process:
    """A workload that has ended by itself."""
    return Process(output, Observation(Phase.ENDED, exit_code=code))


class FakeHost:
    """A task process: a dict as state store, one as Variables; `variables_away` look-ups of those fail.

    `handed_on` is what it left for later steps, `left_by` what earlier ones left.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.saved: list[tuple[str, Any]] = []
        self.terminated = Wakeup()
        self.state: str | None = "running"
        self.lines: list[LogLine] = []
        self.notes: list[str] = []
        self.superseded = False
        self.invited: list[str] = []
        self.withdrawn = 0
        self.handed_on: dict[str, str] = {}
        self.left_by: dict[tuple[str, str], str] = {}
        self.on_invite: Callable[[], object] = lambda: None
        self.away_until = 0.0
        self.variables: dict[str, str] = {}
        self.variables_away = 0
        self.hidden: set[str] = set()

    def load(self, key: str) -> Any | None:
        self._answer()
        return self.values.get(key)

    def save(self, key: str, value: Any) -> None:
        self._answer()
        if self.superseded:
            raise Superseded("archived")
        self.values[key] = value
        self.saved.append((key, value))

    def task_state(self) -> str | None:
        return self.state

    def invite(self, subject: str, body: str) -> None:
        self._answer()
        self.invited.append(subject)
        self.on_invite()

    def withdraw(self) -> None:
        self.withdrawn += 1

    def hand_on(self, key: str, value: str) -> None:
        self._answer()
        self.handed_on[key] = value

    def handed(self, step: str, key: str) -> str | None:
        self._answer()
        return self.left_by.get((step, key))

    def variable(self, key: str) -> str | None:
        if self.variables_away:
            self.variables_away -= 1
            raise StoreUnavailable("Airflow's secrets backend Vault failed: TimeoutError")
        return self.variables.get(key)

    def hide(self, texts: Sequence[str]) -> None:
        self.hidden.update(texts)

    def emit(self, line: LogLine) -> None:
        self.lines.append(line)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def ask(self, action: Action, clear_number: int = 0) -> None:
        """What the API writes."""
        intent = Intent(action=action, by="ann", at=now(), clear_number=clear_number)
        self.values[INTENT_KEY] = intent.model_dump(mode="json")

    def _answer(self) -> None:
        if time.monotonic() < self.away_until:
            raise StoreUnavailable("no answer")


def step_task(
    backend: Backend,
    storage: Path,
    *,
    generation: int = 0,
    clear_number: int = 0,
    earlier: Sequence[str] = (),
    later: Sequence[str] = (),
    **config: Any,
) -> StepTask:
    """A step of a job, its only one unless others come before or after it."""
    executor = {"provider": "subprocess", "command": ["true"]}
    names = [*earlier, "train", *later]
    environment = [{"name": "A", "value": "1"}]
    spec = {"steps": [{"name": name, "executor": executor, "environment": environment} for name in names]}
    job = JobSpec.model_validate({"source": "test", "spec": {}, "platform_spec": spec})
    return StepTask(
        dag_id=DAG_ID,
        run_id="job-1",
        run_after=RUN_AFTER,
        workspace="default",
        job_name="job-1",
        workload_run_id="job-1",
        clear_number=clear_number,
        generation=generation,
        job=job,
        step=job.platform_spec.steps[len(earlier)],
        index=len(earlier),
        user="ann",
        base_url="http://127.0.0.1:8080",
        storage=storage,
        task_log_max_lines=10,
        open_backend=lambda: (backend, FakeConfig(**config)),
        may_use=lambda secret: secret.workspace == "default",
    )
