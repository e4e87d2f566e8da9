"""One loop that runs a step: synchronous, re-attaching.

Never run twice: the record says `submitting` before the engine is asked and `submitted` after it answered, and the
workload's name follows from the run. A try that finds `submitting` looks the name up and submits the same name; one
that finds `submitted` and no workload ends the step as lost. The log pump has a thread of its own, everything that
talks to Airflow stays in the main thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from nemo_airflow_provider.backends.base import Backend, BackendConfig, Observation, Phase, Workload
from nemo_airflow_provider.errors import (
    BackendError,
    CapacityError,
    NemoJobsError,
    StartError,
    Superseded,
)
from nemo_airflow_provider.logs.store import mark_superseded, superseded_start
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import Handle, now
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.runner.environment import environment_of
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.outcome import Outcome, outcome_of
from nemo_airflow_provider.runner.output import Output
from nemo_airflow_provider.runner.task import StepFailed, StepHost, StepLeft, StepTask

#: Seconds between looks at the intent: quick while a person may still be watching the start, then sparing.
_INTENT_QUICK_SECONDS, _INTENT_SECONDS, _QUICK_FOR_SECONDS = 1.0, 3.0, 60.0
#: Airflow kills the process 5 s after SIGTERM; what must be done then is done within this.
_LAST_SECONDS = 4.0
#: Between looks at an engine that has no room or does not answer.
_ENGINE_SECONDS = 1.0
#: An engine that has a timer of its own for the active TTL goes first.
_ENGINE_TIMER_SECONDS = 5.0


def run_step(task: StepTask, host: StepHost) -> None:
    """Run the step to its end, or adopt what an earlier try began.

    :raises StepFailed: the step is over and did not complete
    :raises StepLeft: this worker must go; the workload runs on
    :raises Superseded: another try has taken over; touch nothing
    """
    journal = Journal(task, host)
    record = journal.read()
    if record is not None and record.status.terminal:
        _report(Outcome(record.status, str(record.status_details.get("message", record.status))))
        return
    try:
        backend, config = task.open_backend()
        engine = backend.identity()
    except NemoJobsError as error:
        _fail(journal, str(error), None)
    _StepLoop(task, host, journal, backend, config, engine).run()


def _report(outcome: Outcome) -> None:
    if outcome.status is not Status.COMPLETED:
        raise StepFailed(outcome.message)


def _fail(journal: Journal, message: str, detail: str | None, task_name: str | None = None) -> None:
    error = {"message": message} | ({"error": detail} if detail else {})
    journal.conclude(Outcome(Status.ERROR, message, error=error), task_name)
    raise StepFailed(message)


@dataclass(slots=True)
class _Stop:
    """A stop that was asked of the workload."""

    cancelled: bool = False
    expired_ttl: int | None = None
    asked: bool = False


class _StepLoop:
    def __init__(
        self,
        task: StepTask,
        host: StepHost,
        journal: Journal,
        backend: Backend,
        config: BackendConfig,
        engine: str,
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._backend = backend
        self._config = config
        self._engine = engine
        self._stop = _Stop()
        self._started = self._pending_since = time.monotonic()
        self._next_intent = 0.0
        self._last_chance: float | None = None

    def run(self) -> None:
        record = self._journal.record
        key = self._task.key(self._start_number())
        if self._journal.intent() is Action.CANCEL:
            self._stop.cancelled = True
        handle = record.handle if record else None
        if handle is None or handle.start != key.start:
            if self._stop.cancelled:
                self._stop_everything(key)
                self._end(Outcome(Status.CANCELLED, "Job was cancelled before this step started"), None)
                return
            self._begin(key)
        elif handle.engine != self._engine:
            gone = Observation(Phase.LOST, message=f"The workload was started on '{handle.engine}'")
            self._end(outcome_of(gone, cancelled=False, expired_ttl=None, engine=self._engine), key)
            return
        elif handle.state == "submitting" and self._look(key).phase is Phase.ABSENT:
            if self._stop.cancelled:
                self._end(Outcome(Status.CANCELLED, "Job was cancelled before this step started"), None)
                return
            self._submit(key)
        else:
            self._host.note(f"Step '{key.step}' goes on: {key.task} was started by an earlier try")
        self._watch(key)

    def _start_number(self) -> int:
        """The start to run: a new one only when a clear stopped the last and its worker was then lost."""
        record = self._journal.record
        last = record.handle.start if record and record.handle else 0
        stopped = superseded_start(self._task.storage, self._task.stream)
        return last if stopped is None or stopped < last else stopped + 1

    # --- starting ---------------------------------------------------------------------------------

    def _begin(self, key: WorkloadKey) -> None:
        self._journal.begin(Handle(state="submitting", engine=self._engine, start=key.start), key.task)
        self._stop_everything(key)
        self._submit(key)

    def _stop_everything(self, key: WorkloadKey) -> None:
        """Stop every other workload of the step and wait until they are gone."""
        others = [other for other in self._backend.find(key) if other != key]
        waiting = [other for other in others if self._backend.observe(other).phase in _LIVE]
        for other in waiting:
            self._host.note(f"Stopping {other.task} of an earlier execution of step '{key.step}'")
            self._backend.stop(other, self._config.graceful_shutdown_timeout_seconds)
        for other in waiting:
            while self._look(other).phase in _LIVE:
                self._leave_if_told()
                self._backend.wait(other, _ENGINE_SECONDS, self._host.terminated)

    def _submit(self, key: WorkloadKey) -> None:
        record = self._journal.record
        assert record is not None
        environment = environment_of(self._task, key, record.clear_number)
        workload = Workload(key, self._task.step, environment.system["NEMO_JOB_ATTEMPT_ID"], environment)
        while True:
            try:
                details = self._backend.submit(workload)
            except StartError as error:
                _fail(self._journal, str(error), error.detail)
            except (CapacityError, BackendError) as error:
                self._wait_for_room(key, str(error))
            else:
                self._host.note(f"Step '{key.step}' of job '{self._task.job_name}' runs as {key.task}")
                self._journal.submitted(key.task, details)
                return

    def _wait_for_room(self, key: WorkloadKey, reason: str) -> None:
        self._journal.update(Status.PENDING, reason, {}, key.task)
        self._leave_if_told()
        if self._asked_to_cancel():
            self._end(Outcome(Status.CANCELLED, "Job was cancelled before this step started"), None)
        if time.monotonic() - self._pending_since > self._config.ttl_seconds_before_active:
            gone = Observation(Phase.ENDED)
            ttl = self._config.ttl_seconds_before_active
            self._end(outcome_of(gone, cancelled=False, expired_ttl=ttl, engine=self._engine), None)
        self._host.terminated.wait(_ENGINE_SECONDS)

    # --- watching ---------------------------------------------------------------------------------

    def _watch(self, key: WorkloadKey) -> None:
        with Output(self._task, self._host, self._backend, key) as output:
            seen = self._look(key)
            while seen.phase in _LIVE:
                self._publish(key, seen, output)
                self._obey(key, seen)
                self._backend.wait(key, _INTENT_QUICK_SECONDS, self._host.terminated)
                self._check_termination(key)
                seen = self._look(key)
            while not output.wait_complete(0.2, self._host.terminated if self._last_chance is None else None):
                self._publish(key, seen, output)
                self._check_termination(key)
            outcome = self._conclude(seen)
            if output.lost:
                outcome = replace(outcome, details={**outcome.details, "log_error": output.lost})
            stack = output.last_text(2048) if outcome.status is Status.ERROR else None
            self._end(outcome, key, stack)

    def _publish(self, key: WorkloadKey, seen: Observation, output: Output) -> None:
        trouble = output.trouble
        if self._stop.cancelled:
            status, message = Status.CANCELLING, "Job is cancelling"
        elif seen.phase is Phase.PENDING:
            status, message = Status.PENDING, seen.message or "Job is pending"
        else:
            status, message = Status.ACTIVE, "Job is running"
        self._journal.update(status, trouble or message, seen.details, key.task)

    def _obey(self, key: WorkloadKey, seen: Observation) -> None:
        """Act on the intent and on timers."""
        if self._asked_to_cancel() and not self._stop.asked:
            self._ask_to_stop(key, self._config.graceful_shutdown_timeout_seconds)
        if not self._stop.asked and (ttl := self._expired_ttl(seen)) is not None:
            self._stop.expired_ttl = ttl
            self._ask_to_stop(key, self._config.graceful_shutdown_timeout_seconds)

    def _expired_ttl(self, seen: Observation) -> int | None:
        if seen.phase is Phase.PENDING:
            ttl = self._config.ttl_seconds_before_active
            return ttl if time.monotonic() - self._pending_since > ttl else None
        record = self._journal.record
        ttl = self._config.ttl_seconds_active
        if record is None or record.started_at is None:
            return None
        running = (now() - record.started_at).total_seconds()
        return ttl if running > ttl + _ENGINE_TIMER_SECONDS else None

    def _asked_to_cancel(self) -> bool:
        moment = time.monotonic()
        if moment >= self._next_intent and not self._stop.cancelled:
            quick = moment - self._started < _QUICK_FOR_SECONDS
            self._stop.cancelled = self._journal.intent() is Action.CANCEL
            self._journal.flush()
            # Counted from the answer: a store that is away makes a call last up to 20 s.
            self._next_intent = time.monotonic() + (_INTENT_QUICK_SECONDS if quick else _INTENT_SECONDS)
        return self._stop.cancelled

    def _ask_to_stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        self._stop.asked = True
        self._host.note(f"Stopping {key.task}, {grace_seconds:g} s of grace")
        self._backend.stop(key, grace_seconds)

    def _check_termination(self, key: WorkloadKey) -> None:
        """SIGTERM came: find out why, then stop the workload or leave it."""
        if not self._host.terminated.is_set():
            return
        if self._last_chance is not None:
            if time.monotonic() > self._last_chance:
                raise StepLeft("the workload did not end in time; it is being stopped")
            return
        state = self._host.task_state()
        if state == "restarting":
            mark_superseded(self._task.storage, self._task.stream, key.start)
        elif state not in ("failed", "success", "skipped"):
            raise StepLeft(f"this worker is going away; {key.task} runs on and the next try adopts it")
        # Marked failed, or cleared, by a person: the workload must end, and its last words are kept.
        self._stop.cancelled = True
        self._last_chance = time.monotonic() + _LAST_SECONDS
        self._ask_to_stop(key, min(self._config.graceful_shutdown_timeout_seconds, _LAST_SECONDS - 0.5))

    def _leave_if_told(self) -> None:
        if self._host.terminated.is_set():
            raise StepLeft("this worker is going away before the step has started")

    def _look(self, key: WorkloadKey) -> Observation:
        """Observe; an engine that does not answer leaves the workload where it was."""
        while True:
            try:
                return self._backend.observe(key)
            except BackendError as error:
                self._host.note(f"The engine does not answer, asking again: {error}")
                if self._host.terminated.wait(_ENGINE_SECONDS):
                    raise StepLeft(str(error)) from error

    # --- ending -----------------------------------------------------------------------------------

    def _conclude(self, seen: Observation) -> Outcome:
        expired = self._stop.expired_ttl
        if expired is None and seen.stopped == "ttl":
            expired = self._config.ttl_seconds_active
        cancelled = self._stop.cancelled or seen.stopped in ("asked", "orphaned")
        return outcome_of(seen, cancelled=cancelled, expired_ttl=expired, engine=self._engine)

    def _end(self, outcome: Outcome, key: WorkloadKey | None, error_stack: str | None = None) -> None:
        """Terminal record, then cleanup, then the answer to Airflow; the output is complete by now."""
        self._journal.conclude(outcome, key.task if key else None, error_stack)
        self._host.note(outcome.message)
        if key and outcome.status is Status.COMPLETED and self._config.cleanup_completed_jobs_immediately:
            self._backend.cleanup(key)
        if self._host.terminated.is_set() and outcome.status is Status.COMPLETED:
            # After SIGTERM a task never ends as success: the next try reads the record and reports it.
            raise StepLeft(outcome.message)
        _report(outcome)


_LIVE = (Phase.PENDING, Phase.RUNNING)

__all__ = ["Superseded", "run_step"]
