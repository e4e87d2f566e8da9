"""One loop that runs a step: synchronous, re-attaching.

Never run twice: the record says `submitting` before the engine is asked and `submitted` after it answered, and the
workload's name follows from the run. A try that finds `submitting` looks the name up and submits the same name; one
that finds `submitted` and no workload ends the step as lost. The log pump has a thread of its own, everything that
talks to Airflow stays in the main thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from nemo_airflow_provider.backends.base import Backend, BackendConfig, Observation, Phase, Signal
from nemo_airflow_provider.errors import NemoJobsError
from nemo_airflow_provider.logs.store import mark_superseded
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import now
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.runner.engine import LIVE, Engine
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.limits import Limits, timed_out
from nemo_airflow_provider.runner.outcome import Outcome, outcome_of
from nemo_airflow_provider.runner.output import Output
from nemo_airflow_provider.runner.result import with_result
from nemo_airflow_provider.runner.start import Start
from nemo_airflow_provider.runner.task import StepFailed, StepHost, StepLeft, StepTask


@dataclass(frozen=True, slots=True)
class Timing:
    """How often things are asked, in seconds.

    :param intent: between looks at the intent in the first minute, while a person may be watching
    :param intent_later: after that
    :param engine: between two questions to an engine that has no room or does not answer
    :param engine_timer: how much later than an engine's own timer for the active TTL ours goes off
    :param last: Airflow kills a process 5 s after SIGTERM; what must be done then is done within this
    """

    intent: float = 1.0
    intent_later: float = 3.0
    engine: float = 1.0
    engine_timer: float = 5.0
    last: float = 4.0


def run_step(task: StepTask, host: StepHost, timing: Timing | None = None) -> Any:
    """Run the step to its end, or adopt what an earlier try began.

    :return: what its result file holds, if it has one
    :raises StepFailed: the step is over and did not complete
    :raises StepLeft: this worker must go; the workload runs on
    :raises Superseded: another try has taken over; touch nothing
    """
    timing = timing or Timing()
    journal = Journal(task, host)
    record = journal.read()
    if record is not None and record.status.terminal:
        _report(Outcome(record.status, str(record.status_details.get("message", record.status))))
        return journal.result() if task.result_file else None
    if task.refusal is not None and record is None:
        journal.fail(task.refusal)
    backend, config = _open(task, host, journal, timing)
    loop = StepLoop(task, host, journal, Engine(backend, host, timing.engine), config, timing)
    while loop.run():
        pass
    return loop.result


def _open(task: StepTask, host: StepHost, journal: Journal, timing: Timing) -> tuple[Backend, BackendConfig]:
    """The backend; a workload that was begun is not given up for a configuration that is being mended."""
    while True:
        try:
            return task.open_backend()
        except NemoJobsError as error:
            if journal.record is None or journal.record.handle is None:
                journal.fail(str(error))
            journal.explain(f"The step's workload cannot be watched: {error}")
            if host.terminated.wait(timing.intent_later):
                raise StepLeft(str(error)) from error


def _report(outcome: Outcome) -> None:
    if outcome.status is not Status.COMPLETED:
        raise StepFailed(outcome.message)


class StepLoop:
    """One try of a step."""

    def __init__(
        self, task: StepTask, host: StepHost, journal: Journal, engine: Engine, config: BackendConfig, timing: Timing
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._engine = engine
        self._config = config
        self._timing = timing
        self._limits = Limits.of(task.step, config, timing.engine_timer)
        #: What the step's result file holds, once the step has completed.
        self.result: Any = None
        self._cancelled = False
        self._stop_asked = False
        self._began = time.monotonic()
        self._next_intent = 0.0
        #: Set once SIGTERM has been understood: when this process leaves at the latest.
        self._last_chance: float | None = None
        #: Never set: what is waited for once SIGTERM has been understood.
        self._quiet = Event()

    def run(self) -> bool:
        """Start or adopt the workload, watch it to its end, report.

        :return: whether it failed and is to be started again
        """
        start = Start(
            self._task, self._host, self._journal, self._engine, self._config, self._limits, self._timing.engine
        )
        outcome = start.begin_or_adopt(self._asked_to_cancel)
        if outcome is not None:
            self._end(outcome, None)
            return False
        key = start.key
        with Output(self._task, self._host, self._engine.backend, key) as output:
            seen = self._watch(key, output)
            outcome, self.result = with_result(self._conclude(seen), self._task.result_file, self._engine, key)
            if output.lost:
                outcome = replace(outcome, details={**outcome.details, "log_error": output.lost})
            stack = output.last_text(2048) if outcome.status is Status.ERROR else None
            if self._task.repeats.allow(outcome, self._journal.record, key.task):
                self._host.note(self._journal.give_up_start(outcome, key.task, stack))
                return True
            self._end(outcome, key, stack)
            return False

    def _watch(self, key: WorkloadKey, output: Output) -> Observation:
        """Until the workload is over and all of its output is stored; the last look at it."""
        seen = self._engine.observe(key)
        while seen.phase in LIVE:
            self._publish(key, seen, output)
            self._obey(key, seen, output)
            self._engine.backend.wait(key, self._timing.intent, self._wake)
            self._check_termination(key)
            seen = self._engine.observe(key)
        while not output.wait_complete(0.2, self._wake):
            self._publish(key, seen, output)
            self._check_termination(key)
        return seen

    @property
    def _wake(self) -> Signal:
        return self._host.terminated if self._last_chance is None else self._quiet

    def _publish(self, key: WorkloadKey, seen: Observation, output: Output) -> None:
        if self._last_chance is not None:
            return  # the state store may belong to the next try already
        if self._cancelled:
            status, message = Status.CANCELLING, ". ".join(filter(None, ("Job is cancelling", seen.message)))
        elif seen.phase is Phase.PENDING:
            status, message = Status.PENDING, seen.message or "Job is pending"
        else:
            status, message = Status.ACTIVE, seen.message or "Job is running"
        self._journal.update(status, output.trouble or message, seen.details, key.task)

    def _obey(self, key: WorkloadKey, seen: Observation, output: Output) -> None:
        """Act on the intent and on limits."""
        if self._stop_asked:
            return
        if self._asked_to_cancel():
            self._ask_to_stop(key)
        elif (reason := self._expired(key, seen, output)) is not None:
            self._journal.expire(reason)
            self._ask_to_stop(key)

    def _asked_to_cancel(self) -> bool:
        """What the intent says, asked not too often: each question costs the API server some milliseconds."""
        moment = time.monotonic()
        if not self._cancelled and moment >= self._next_intent:
            self._cancelled = self._journal.intent() is Action.CANCEL
            self._journal.flush()
            quick = moment - self._began < 60
            # Counted from the answer: a store that is away makes a call last up to 20 s.
            self._next_intent = time.monotonic() + (self._timing.intent if quick else self._timing.intent_later)
        return self._cancelled

    def _expired(self, key: WorkloadKey, seen: Observation, output: Output) -> str | None:
        """Why a limit of the step ends it, if one does."""
        record = self._journal.record
        return self._limits.expired(record, key.task, seen.phase, now(), output.last_sign) if record else None

    def _ask_to_stop(self, key: WorkloadKey) -> None:
        grace = self._config.graceful_shutdown_timeout_seconds
        self._engine.stop(key, grace)
        self._stop_asked = True
        self._host.note(f"Stopping {key.task}, {grace} s of grace")

    def _check_termination(self, key: WorkloadKey) -> None:
        """SIGTERM came: find out why, then stop the workload or leave it."""
        if not self._host.terminated.is_set():
            return
        if self._last_chance is not None:
            if time.monotonic() > self._last_chance:
                raise StepLeft(f"{key.task} is being stopped; its end is read later")
            return
        state = self._host.task_state()
        if state == "restarting":
            mark_superseded(self._task.storage, self._task.stream, key.start)
        elif state not in ("failed", "success", "skipped"):
            raise StepLeft(f"this worker is going away; {key.task} runs on and the next try adopts it")
        # Marked, or cleared, by a person: the workload must end. The engine owns the timer of its grace; what it
        # says in the seconds that are left is still stored.
        self._cancelled = True
        self._last_chance = time.monotonic() + self._timing.last
        self._ask_to_stop(key)

    def _conclude(self, seen: Observation) -> Outcome:
        handle = self._journal.record.handle if self._journal.record else None
        expired = handle.expired if handle else None
        if expired is None and seen.stopped == "ttl":
            expired = timed_out(self._config.ttl_seconds_active)
        cancelled = self._cancelled or seen.stopped == "asked"
        return outcome_of(
            seen,
            backend=self._engine.backend,
            engine=handle.engine if handle else "",
            cancelled=cancelled,
            expired=expired,
        )

    def _end(self, outcome: Outcome, key: WorkloadKey | None, error_stack: str | None = None) -> None:
        """Terminal record, then cleanup, then the answer to Airflow; the output is complete by now."""
        if outcome.status is Status.COMPLETED and self._task.result_file:
            self._journal.keep_result(self.result)
        self._journal.conclude(outcome, key.task if key else None, error_stack)
        self._host.note(outcome.message)
        if key and outcome.status is Status.COMPLETED and self._config.cleanup_completed_jobs_immediately:
            self._engine.cleanup(key)
        if self._host.terminated.is_set() and outcome.status is Status.COMPLETED:
            # After SIGTERM a task never ends as success: the next try reads the record and reports it.
            raise StepLeft(outcome.message)
        _report(outcome)
