"""What a step run is told, and what it needs of the place it runs in."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from nemo_airflow_provider.backends.base import Backend, BackendConfig
from nemo_airflow_provider.errors import NemoJobsError
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.logline import LogLine
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.secret import SecretItem, SecretName, secret_items
from nemo_airflow_provider.model.spec import JobSpec, StepSpec
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner.repeat import Repeats

T = TypeVar("T")


class StepFailed(NemoJobsError):
    """The step is over and did not complete; it must not be tried again."""

    code = "step_failed"


class StepLeft(NemoJobsError):
    """This worker must go while the workload runs on; a later try adopts it."""

    code = "step_left"


class StepParked(NemoJobsError):
    """The step is paused and its worker slot is given back; whoever answers its request runs it again."""

    code = "step_parked"


class StoreUnavailable(NemoJobsError):
    """The state store did not answer; ask again later."""

    code = "store_unavailable"


class Wakeup:
    """An event that a signal handler may set: `threading.Event` can deadlock there, since it takes a lock."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._set = False

    def set(self) -> None:
        """Wake whoever waits, for ever after. Safe in a signal handler, and twice."""
        if not self._set:
            self._set = True
            os.write(self._write, b"!")

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until set, at most `timeout` seconds; returns whether it is set."""
        if not self._set:
            select.select([self._read], [], [], timeout)
        return self._set


class StepHost(Protocol):
    """What a step needs of the task process it runs in. Called from the main thread, but for `emit`."""

    @property
    def terminated(self) -> Wakeup:
        """Set when the process was asked to end."""

    def load(self, key: str) -> Any | None:
        """A value of this task instance's state store; None when absent.

        :raises StoreUnavailable: no answer
        """

    def save(self, key: str, value: Any) -> None:
        """Write a value that never expires.

        :raises Superseded: another try has taken over
        :raises StoreUnavailable: no answer
        """

    def task_state(self) -> str | None:
        """Airflow's state of this task instance now; None when it cannot be had."""

    def invite(self, subject: str, body: str) -> None:
        """Put a request with the options of `Answer` on Airflow's pages; what was answered before is forgotten.

        :raises Superseded: another try has taken over
        :raises StoreUnavailable: no answer
        """

    def withdraw(self) -> None:
        """Take the request back, if that is possible now."""

    def hand_on(self, key: str, value: str) -> None:
        """Leave a value for other steps of the run; it is gone when the next try of this one begins.

        :raises StoreUnavailable: no answer
        """

    def handed(self, step: str, key: str) -> str | None:
        """What another step of the run has left; None when that is nothing.

        :raises StoreUnavailable: no answer
        """

    def variable(self, key: str) -> str | None:
        """The value of an Airflow Variable; None when there is none.

        :raises StoreUnavailable: nobody can tell now
        """

    def hide(self, texts: Sequence[str]) -> None:
        """Replace these texts by `***` in the task log from now on."""

    def emit(self, line: LogLine) -> None:
        """Copy a line of output to the task log. Called from another thread."""

    def note(self, text: str) -> None:
        """Write a sentence of ours to the task log."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a parked step was answered on Airflow's pages, or through its API by us.

    :param action: resume or cancel
    :param at: when; pauses that were asked for later are not answered
    """

    action: Action
    at: datetime


#: Task states that a person made. Any other after SIGTERM means that this worker must go.
ENDED_BY_PERSON = ("failed", "success", "skipped", "restarting")

#: Seconds between two tries to reach a state store that does not answer; a failing call takes up to 20 s itself.
STORE_RETRY_SECONDS = 3.0


def insist(host: StepHost, call: Callable[[], T]) -> T:
    """Ask the state store until it answers.

    :param call: to `host`
    :raises StepLeft: this process had to go first
    """
    while True:
        try:
            return call()
        except StoreUnavailable as error:
            if host.terminated.wait(STORE_RETRY_SECONDS):
                raise StepLeft(f"the state store does not answer: {error}") from error


@dataclass(frozen=True, slots=True)
class StepTask:
    """One try of one step.

    :param dag_id: of the run: with the next two its identity
    :param run_id: Airflow's run id
    :param run_after: the run's `run_after`
    :param workspace: workspace name
    :param job_name: the job's name
    :param workload_run_id: see `WorkloadKey.run_id`
    :param clear_number: Airflow's clear number of the run now
    :param generation: see `model.record.generation_of`
    :param job: the validated job
    :param step: this step's part of it
    :param index: the step's position in the job, from 0; in an ordinary DAG see `model.authored.stream_number`
    :param user: who created the run, for `NHX_PRINCIPAL`
    :param base_url: where workloads reach the API
    :param storage: root of the log store
    :param task_log_max_lines: lines at each end that reach the task log
    :param open_backend: resolves the profile when the step runs
    :param may_use: whether the job's workspace may use a secret when the step runs
    :param refusal: why the step cannot run as written, if it cannot
    :param listed: whether the jobs API shows the job
    :param repeats: how often a workload that fails is started again
    :param result_file: path below the task's storage of the file whose content the step hands back; None: nothing
    """

    dag_id: str
    run_id: str
    run_after: datetime
    workspace: str
    job_name: str
    workload_run_id: str
    clear_number: int
    generation: int
    job: JobSpec
    step: StepSpec
    index: int
    user: str | None
    base_url: str
    storage: Path
    task_log_max_lines: int
    open_backend: Callable[[], tuple[Backend, BackendConfig]]
    may_use: Callable[[SecretName], bool]
    refusal: str | None = None
    listed: bool = True
    repeats: Repeats = field(default_factory=Repeats)
    result_file: str | None = None

    @property
    def run_key(self) -> str:
        """Identity of the run."""
        return names.run_key(self.dag_id, self.run_id, self.run_after)

    @property
    def steps_before(self) -> list[str]:
        """Names of the job's steps before this one."""
        names_of_steps = [step.name for step in self.job.platform_spec.steps]
        return names_of_steps[: names_of_steps.index(self.step.name)]

    @property
    def is_last(self) -> bool:
        """Whether no step of the job follows."""
        return self.job.platform_spec.steps[-1].name == self.step.name

    @property
    def secrets(self) -> list[SecretItem]:
        """What of the step's environment is secret."""
        return secret_items(self.step, self.workspace)

    @property
    def stream(self) -> StreamId:
        """Where the output of this generation is stored."""
        return StreamId(self.workspace, self.run_key, self.index, self.generation)

    def key(self, start: int) -> WorkloadKey:
        """Names the workload of one start."""
        return WorkloadKey(self.workspace, self.workload_run_id, self.run_key, self.step.name, self.generation, start)
