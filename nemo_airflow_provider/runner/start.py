"""From nothing, or from what an earlier try left, to a workload that can be watched."""

from __future__ import annotations

from datetime import timedelta

from nemo_airflow_provider.backends.base import BackendConfig, Observation, Phase, Workload
from nemo_airflow_provider.errors import BackendError, StartError, Superseded
from nemo_airflow_provider.installation import installation_id
from nemo_airflow_provider.logs.store import superseded_start
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import Handle
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.runner.engine import Engine
from nemo_airflow_provider.runner.environment import environment_of
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.limits import Limits
from nemo_airflow_provider.runner.outcome import Outcome, outcome_of, timed_out_while
from nemo_airflow_provider.runner.repeat import failed_start
from nemo_airflow_provider.runner.secrets import StepSecrets
from nemo_airflow_provider.runner.task import StepHost, StepLeft, StepTask
from nemo_airflow_provider.runner.wishes import Wishes

_NEVER_STARTED = Outcome(Status.CANCELLED, "Job was cancelled before this step started")
_CANCELLED_IN_PAUSE = Outcome(Status.CANCELLED, "Job was cancelled while it was paused")
_RESTS = Outcome(Status.PAUSED, "Job is paused")
#: What the engine may say of a workload that `submit` has not started, or not to its end.
_NOT_STARTED = (Phase.ABSENT, Phase.PENDING)


class Start:
    """Begins or adopts the workload of one start of the step.

    :param wait_seconds: between two tries of an engine that has no room
    """

    def __init__(
        self,
        task: StepTask,
        host: StepHost,
        journal: Journal,
        engine: Engine,
        config: BackendConfig,
        limits: Limits,
        secrets: StepSecrets,
        wishes: Wishes,
        wait_seconds: float,
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._engine = engine
        self._config = config
        self._limits = limits
        self._secrets = secrets
        self._wishes = wishes
        self._wait_seconds = wait_seconds
        self.key = task.key(self._number())

    def _number(self) -> int:
        """The start to run: a new one when the last failed and is repeated, or was stopped for a pause, or when a clear
        stopped it and its worker was then lost."""
        record = self._journal.record
        last = record.handle.start if record and record.handle else 0
        if failed_start(record) is not None:
            return last + 1
        if record and record.rests and record.handle and record.handle.pausing == "stop":
            last += 1
        stopped = superseded_start(self._task.storage, self._task.stream)
        return last if stopped is None or stopped < last else stopped + 1

    def begin_or_adopt(self) -> Outcome | None:
        """Have the workload of `key` in the engine.

        :return: how the step ended instead, or that it rests, if it did or does
        :raises Superseded: a newer execution of the step is there
        :raises StepLeft: this worker must go first
        """
        record = self._journal.record
        handle = record.handle if record else None
        if handle is None or handle.start != self.key.start:
            return self._begin()
        identity = self._engine.patiently(self._engine.backend.identity)
        if handle.engine != identity:
            gone = Observation(Phase.LOST, message=f"{self._engine.backend.noun} is not on {identity}")
            return outcome_of(
                gone,
                backend=self._engine.backend,
                engine=handle.engine,
                cancelled=self._wishes.cancelled,
                expired=handle.expired,
            )
        if handle.state == "submitting":
            seen = self._engine.observe(self.key)
            if seen.phase in _NOT_STARTED:
                return self._begin_again()
            # What the engine says is written down once it is known what to hide in it.
            self._journal.submitted(self.key.task, {}, runs=True)
        self._host.note(f"Step '{self.key.step}' goes on: {self.key.task} was started by an earlier try")
        return None

    def _declined(self) -> Outcome | None:
        """What becomes of a step of which nothing lives, if it is not to start anything now."""
        action = self._wishes.newest()
        if action is Action.PAUSE:
            return _RESTS
        if action is not Action.CANCEL:
            return None
        record = self._journal.record
        return _CANCELLED_IN_PAUSE if record and record.rests and record.tasks else _NEVER_STARTED

    def _wait_until_due(self) -> None:
        """Sit out the pause before a start that follows a failed one; whatever else is wished ends it."""
        record = self._journal.record
        due = self._task.repeats.due(record) if record else None
        while due is not None and (left := due - self._journal.now()) > timedelta() and self._declined() is None:
            self._host.terminated.wait(min(left.total_seconds(), self._wait_seconds))
            self._leave_if_told()

    def _begin(self) -> Outcome | None:
        self._wait_until_due()
        if (declined := self._declined()) is not None:
            self._stop_older()
            return declined
        identity = self._identity()
        if isinstance(identity, Outcome):
            return identity
        handle = Handle(state="submitting", engine=identity, start=self.key.start)
        self._journal.begin(handle, self.key.task, self._config.graceful_shutdown_timeout_seconds)
        self._stop_older()
        return self._submit()

    def _begin_again(self) -> Outcome | None:
        """Go on with a start that is written down and that the engine does not have."""
        self._stop_older()  # the try that wrote it down may have gone before they were
        if (declined := self._declined()) is not None:
            self._engine.give_up(self.key)
            return declined
        self._journal.go_on(self.key.task)
        return self._submit()

    def _stop_older(self) -> None:
        """Stop every workload of earlier executions of the step and wait until they are gone."""
        others = self._engine.others(self.key)
        if any((other.generation, other.start) > (self.key.generation, self.key.start) for other in others):
            raise Superseded(f"a newer execution of step '{self.key.step}' has started already")
        waiting = [other for other in others if self._engine.observe(other).phase.lives]
        for other in waiting:
            self._host.note(f"Stopping {other.task} of an earlier execution of step '{other.step}'")
            self._engine.stop(other, self._config.graceful_shutdown_timeout_seconds)
        for other in waiting:
            while self._engine.observe(other).phase.lives:
                self._leave_if_told()
                self._engine.stop(other, self._config.graceful_shutdown_timeout_seconds)
                self._engine.backend.wait(other, self._wait_seconds, self._host.terminated)

    def _identity(self) -> str | Outcome:
        """Names the engine, before anything of the start is written down; else how the step ended while it was waited
        for."""
        told = False
        while True:
            try:
                return self._engine.backend.identity()
            except BackendError as error:
                if not told:
                    self._host.note(f"The engine does not answer, asking again: {error}")
                    told = True
                self._journal.begun()
                self._journal.explain(str(error))
                if (outcome := self._wait(str(error))) is not None:
                    return outcome

    def _submit(self) -> Outcome | None:
        while True:
            try:
                details = self._engine.backend.submit(self._workload())
            except StartError as error:
                self._engine.give_up(self.key)
                details_of_error = {"error": error.detail} if error.detail else {}
                return Outcome(Status.ERROR, str(error), error={"message": str(error), **details_of_error})
            except BackendError as error:
                seen = self._engine.observe(self.key)
                if seen.phase in _NOT_STARTED:
                    self._journal.update(Status.PENDING, str(error), {}, self.key.task)
                    if (outcome := self._wait(str(error))) is not None:
                        self._engine.give_up(self.key)
                        return outcome
                    continue
                details = seen.details  # it was started, and the answer was lost
            self._host.note(f"Step '{self.key.step}' of job '{self._task.job_name}' runs as {self.key.task}")
            self._journal.submitted(self.key.task, details, runs=self._engine.backend.starts_at_once)
            return None

    def _workload(self) -> Workload:
        """The workload with the secrets of this moment.

        :raises BackendError: see `StepSecrets.values`
        """
        environment = environment_of(self._task, self.key, self._journal.began_in, self._secrets.values())
        return Workload(
            self.key,
            self._task.step,
            environment.system["NEMO_JOB_ATTEMPT_ID"],
            environment,
            installation_id(self._task.storage),
            names.step_id(self.key.run_key, self._task.index, self.key.generation),
        )

    def _wait(self, reason: str) -> Outcome | None:
        """Wait a little for room, or for the engine; how the step ended instead, if it did.

        :param reason: what is waited for
        """
        self._leave_if_told()
        if (declined := self._declined()) is not None:
            return declined
        expired = self._limits.expired_before_active(self._journal.known, self.key.task, self._journal.now())
        if expired is not None:
            return timed_out_while(expired, reason)
        self._host.terminated.wait(self._wait_seconds)
        return None

    def _leave_if_told(self) -> None:
        if self._host.terminated.is_set():
            raise StepLeft("this worker is going away before the step has started")
