"""One loop that runs a step: synchronous, re-attaching.

Never run twice: the record says `submitting` before the engine is asked and `submitted` after it answered, and the
workload's name follows from the run. A try that finds `submitting` looks the name up and submits the same name; one
that finds `submitted` and no workload ends the step as lost. The log pump has a thread of its own, everything that
talks to Airflow stays in the main thread.
"""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event
from typing import Any

from nemo_airflow_provider.backends.base import Backend, BackendConfig, Observation, Signal
from nemo_airflow_provider.logs.store import mark_superseded
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.absence import Absence, Unseen
from nemo_airflow_provider.runner.engine import Engine
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.limits import Limits, timed_out
from nemo_airflow_provider.runner.outcome import Outcome, outcome_of
from nemo_airflow_provider.runner.output import Output
from nemo_airflow_provider.runner.pause import Pause, shown
from nemo_airflow_provider.runner.result import with_result
from nemo_airflow_provider.runner.secrets import StepSecrets
from nemo_airflow_provider.runner.start import Start
from nemo_airflow_provider.runner.task import ENDED_BY_PERSON, StepFailed, StepHost, StepLeft, StepTask
from nemo_airflow_provider.runner.timing import Timing
from nemo_airflow_provider.runner.wishes import Wishes


def report(outcome: Outcome) -> None:
    """Tell the caller how the step ended.

    :raises StepFailed: it did not complete
    """
    if outcome.status is not Status.COMPLETED:
        raise StepFailed(outcome.message)


class StepLoop:
    """One try of a step."""

    def __init__(
        self,
        task: StepTask,
        host: StepHost,
        journal: Journal,
        backend: Backend,
        config: BackendConfig,
        wishes: Wishes,
        timing: Timing,
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._config = config
        self._timing = timing
        self._limits = Limits.of(task.step, config, timing.engine_timer if backend.has_active_timer else 0.0)
        absence = Absence(task, journal, self._limits, wishes, timing.away)
        self._engine = Engine(backend, host, timing.engine, timing.stop_again, absence.goes_on)
        #: What the step's result file holds, once the step has completed.
        self.result: Any = None
        self._wishes = wishes
        self._secrets = StepSecrets(task, host, journal, timing.engine)
        self._pause = Pause(task, host, journal, self._engine, config, wishes, timing)
        self._stop_asked = False
        #: Set once SIGTERM has been understood: when this process leaves at the latest.
        self._last_chance: float | None = None
        #: Never set: what is waited for once SIGTERM has been understood.
        self._quiet = Event()

    def run(self) -> None:
        """Start or adopt the workload, watch it to its end, report; once more after a pause that ended it, and after a
        failure that is repeated."""
        going_on = True
        try:
            while going_on:
                start = self._start()
                outcome = start.begin_or_adopt()
                going_on = self._follow(start.key) if outcome is None else self._rest_or_end(outcome, start.key)
        except Unseen as end:
            row = self._journal.known.newest_task
            self._end(end.outcome, None if row is None or row.status.terminal else row.name)

    def _start(self) -> Start:
        return Start(
            self._task,
            self._host,
            self._journal,
            self._engine,
            self._config,
            self._limits,
            self._secrets,
            self._wishes,
            self._timing.engine,
        )

    def _follow(self, key: WorkloadKey) -> bool:
        """Watch the workload to its end; whether the step goes on after it."""
        with Output(self._task, self._host, self._engine.backend, key, self._secrets) as output:
            seen = self._watch(key, output)
            # The output is stored, so it is known what to hide.
            outcome, self.result = with_result(
                self._conclude(seen),
                self._task.result_file,
                self._engine,
                key,
                self._journal.mask,
                self._timing.result,
            )
            if output.lost:
                outcome = replace(outcome, details={**outcome.details, "log_error": output.lost})
            stack = output.last_text(2048) if outcome.status is Status.ERROR else None
            if self._task.repeats.allow(outcome, self._journal.record, key.task, self._config.most_platform_retries):
                self._host.note(self._journal.give_up_start(outcome, key.task, stack))
                return True
            if outcome.status is not Status.PAUSED:
                self._end(outcome, key.task, stack, key)
                return False
        return self._rest_or_end(outcome, key)

    def _rest_or_end(self, outcome: Outcome, key: WorkloadKey) -> bool:
        """Hold a step of which nothing lives, or end it; whether it goes on."""
        if outcome.status is Status.PAUSED:
            self._pause.rest(outcome)
            self._check_rest(key)
            return True
        record = self._journal.record
        row = record.newest_task if record and record.rests else None
        self._end(outcome, None if row is None or row.status.terminal else row.name)
        return False

    def _watch(self, key: WorkloadKey, output: Output) -> Observation:
        """Until the workload is over and all of its output is stored; the last look at it."""
        seen = self._engine.observe(key)
        while seen.phase.lives:
            output.attend(seen.note)
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
        if self._wishes.cancelled:
            status, message = Status.CANCELLING, ". ".join(filter(None, ("Job is cancelling", seen.message)))
        else:
            status, message = shown(self._journal.known, seen)
        # As long as it is not known what to hide, the engine's words are not written down either.
        details = seen.details if output.pumping else {}
        self._journal.update(status, output.trouble or message, details, key.task)

    def _obey(self, key: WorkloadKey, seen: Observation, output: Output) -> None:
        """Act on the intent and on limits."""
        handle = self._journal.known.handle
        # What is stored as expired ends as that: a try before wrote it, and may not have asked for the end.
        if self._stop_asked or self._wishes.cancelled or (handle is not None and handle.expired is not None):
            self._ask_to_stop(key)
        elif self._pause.act(key, seen):
            return  # limits stand still meanwhile
        elif (reason := self._expired(key, seen, output)) is not None:
            self._journal.expire(reason)
            self._ask_to_stop(key)

    def _expired(self, key: WorkloadKey, seen: Observation, output: Output) -> str | None:
        """Why the step ends before its workload does, if so."""
        journal = self._journal
        return seen.hopeless or self._limits.expired(
            journal.known, key.task, seen.phase, journal.now(), output.last_sign
        )

    def _ask_to_stop(self, key: WorkloadKey) -> None:
        grace = self._config.graceful_shutdown_timeout_seconds
        self._stop_asked = True
        if self._engine.stop(key, grace):
            self._host.note(f"Stopping {key.task}, {grace} s of grace")

    def _check_termination(self, key: WorkloadKey) -> None:
        """SIGTERM came: find out why, then stop the workload or leave it."""
        if not self._host.terminated.is_set():
            return
        if self._last_chance is not None:
            if time.monotonic() > self._last_chance:
                raise StepLeft(f"{key.task} is being stopped; its end is read later")
            return
        self._why_to_go(key)
        # Marked, or cleared, by a person: the workload must end. The engine owns the timer of its grace; what it
        # says in the seconds that are left is still stored.
        self._last_chance = time.monotonic() + self._timing.last
        self._ask_to_stop(key)

    def _check_rest(self, key: WorkloadKey) -> None:
        """As `_check_termination`, for a step of which nothing lives."""
        if self._host.terminated.is_set():
            self._why_to_go(key)

    def _why_to_go(self, key: WorkloadKey) -> None:
        """A person has marked or cleared the task: then the step is cancelled. Else only this process must go.

        :raises StepLeft: so it is
        """
        state = self._host.task_state()
        if state == "restarting":
            mark_superseded(self._task.storage, self._task.stream, key.start)
        elif state not in ENDED_BY_PERSON:
            raise StepLeft(f"this worker is going away; {key.task} runs on and the next try adopts it")
        self._wishes.cancel()

    def _conclude(self, seen: Observation) -> Outcome:
        handle = self._journal.record.handle if self._journal.record else None
        expired = handle.expired if handle else None
        if expired is None and seen.stopped == "ttl":
            expired = timed_out(self._config.ttl_seconds_active)
        cancelled = self._wishes.cancelled
        paused = handle is not None and handle.pausing == "stop" and not cancelled
        return outcome_of(
            seen,
            backend=self._engine.backend,
            engine=handle.engine if handle else "",
            cancelled=cancelled or (seen.stopped == "asked" and not paused),
            expired=expired,
            paused=paused,
        )

    def _end(
        self, outcome: Outcome, task_name: str | None, error_stack: str | None = None, key: WorkloadKey | None = None
    ) -> None:
        """Terminal record, then cleanup, then the answer to Airflow; the output is complete by now."""
        if outcome.status is Status.COMPLETED and self._task.result_file:
            self._journal.keep_result(self.result)
        self._journal.conclude(outcome, task_name, error_stack)
        self._host.note(outcome.message)
        is_whole = outcome.status is Status.COMPLETED and "log_error" not in outcome.details
        if key and is_whole and self._config.cleanup_completed_jobs_immediately:
            self._engine.cleanup(key)
        if self._host.terminated.is_set() and outcome.status is Status.COMPLETED:
            # After SIGTERM a task never ends as success: the next try reads the record and reports it.
            raise StepLeft(outcome.message)
        report(outcome)
