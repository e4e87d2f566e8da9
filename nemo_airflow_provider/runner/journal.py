"""The step's record: kept here, published to the state store, never lost to an API server that is away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.model.plain import cleaned
from nemo_airflow_provider.model.record import (
    Handle,
    StepRecord,
    TaskRecord,
    now,
    parse_record,
    result_key,
    step_key,
)
from nemo_airflow_provider.model.status import Status, may_follow
from nemo_airflow_provider.runner.outcome import Outcome
from nemo_airflow_provider.runner.shorten import shorten
from nemo_airflow_provider.runner.task import StepFailed, StepHost, StepTask, StoreUnavailable, insist


class Journal:
    """Reads and writes the record of one generation of one step.

    What workloads and engines say becomes text that can be stored here, and nowhere else.
    """

    def __init__(self, task: StepTask, host: StepHost, clock: Callable[[], datetime] = now) -> None:
        self._host = host
        #: What the step's times are read from.
        self.now = clock
        self._key = step_key(task.generation)
        self._result_key = result_key(task.generation)
        self._clear_number = task.clear_number
        self._dirty = False
        self.record: StepRecord | None = None
        #: Hides the step's secrets in all that is written down.
        self.mask = Mask()

    def read(self) -> StepRecord | None:
        """The record an earlier try left, or None.

        :raises StepLeft: the state store did not answer until this process had to go
        """
        value = insist(self._host, lambda: self._host.load(self._key))
        # One that somebody overwrote is as good as none: the workload is found by its name then.
        self.record = parse_record(value)
        return self.record

    @property
    def began_in(self) -> int:
        """The clear number the generation began with."""
        return self.record.clear_number if self.record else self._clear_number

    def begin(self, handle: Handle, task_name: str, grace_seconds: float) -> None:
        """Write down that a workload is about to be submitted; no side effect comes before this.

        What an earlier start left is kept in its task row alone.

        :param grace_seconds: what the workload will be given to end when it is asked to
        :raises Superseded: another try has taken over
        """
        moment = self.now()
        record = self.begun()
        resumes = record.status in (Status.PAUSED, Status.RESUMING)
        record.handle = handle
        record.grace_seconds = grace_seconds
        record.status = Status.RESUMING if resumes else Status.PENDING
        record.status_details = {"message": f"Job is {record.status}"}
        record.started_at = record.paused_at = record.parked_at = None
        record.paused_seconds = record.paused_before_seconds = 0
        record.updated_at = moment
        record.end_paused_tasks(task_name, moment)
        if record.task(task_name) is None:
            record.tasks.append(
                TaskRecord(
                    name=task_name,
                    start=handle.start,
                    status=Status.PENDING,
                    created_at=moment,
                    updated_at=moment,
                )
            )
        self.store()

    def go_on(self, task_name: str) -> None:
        """Write down that a start which was paused before the engine had it goes on; its pause is over."""
        if self.known.rests:
            self.known.parked_at = None
            self._update(Status.RESUMING, self.details(f"Job is {Status.RESUMING}"), task_name)

    def submitted(self, task_name: str, details: Mapping[str, Any], *, runs: bool) -> None:
        """The engine has the workload.

        :param runs: whether it is known to run by now
        """
        record = self.known
        assert record.handle is not None
        record.handle.state = "submitted"
        status, message = (Status.ACTIVE, "Job is running") if runs else (Status.PENDING, "Job is pending")
        self._update(self._reached(status), self.details(message, details), task_name)

    def update(self, status: Status, message: str, details: Mapping[str, Any], task_name: str) -> None:
        """Publish what was seen, if it differs from what was published."""
        record = self.known
        reached = self._reached(status)
        wanted = self.details(message, details)
        if self._dirty or reached is not record.status or wanted != record.status_details:
            self._update(reached, wanted, task_name)

    def conclude(self, outcome: Outcome, task_name: str | None, error_stack: str | None = None) -> None:
        """Write the terminal record; insists until it is stored.

        :param task_name: the workload's task row; None when nothing was started
        :raises Superseded: another try has taken over
        :raises StepLeft: the state store did not answer until this process had to go
        """
        moment = self.now()
        record = self.begun()
        record.status = outcome.status
        record.status_details = self.details(outcome.message, outcome.details)
        record.error_details = self._storable(dict(outcome.error))
        record.parked_at = None
        record.updated_at = record.ended_at = moment
        if task_name is None:
            record.tasks = [task for task in record.tasks if task.status.terminal]
        else:
            self._end_task(outcome, task_name, error_stack)
        self.store()

    def give_up_start(self, outcome: Outcome, task_name: str, error_stack: str | None) -> str:
        """Write down that a start failed and another follows (`runner.repeat`); returns what is said of it."""
        self._end_task(outcome, task_name, error_stack)
        message = f"{outcome.message.rstrip('.')}; it is started again"
        self.known.status_details = {"message": self._storable(message)}
        self.known.updated_at = self.now()
        self.store()
        return message

    def _end_task(self, outcome: Outcome, task_name: str, error_stack: str | None) -> None:
        if task := self.known.task(task_name):
            task.status = outcome.status
            task.status_details = self.details(outcome.message, outcome.details)
            task.error_details = self._storable(dict(outcome.error))
            task.error_stack = self._storable(error_stack)
            task.updated_at = self.now()

    def keep_result(self, value: Any) -> None:
        """Store what the step hands back, for a try that finds the step over; insists as `conclude` does."""
        insist(self._host, lambda: self._host.save(self._result_key, {"value": value}))

    def result(self) -> Any:
        """What `keep_result` stored; None when it stored nothing."""
        stored = insist(self._host, lambda: self._host.load(self._result_key))
        return stored.get("value") if isinstance(stored, dict) else None

    def fail(self, message: str) -> NoReturn:
        """End a step that never had a workload.

        :raises StepFailed: always, once the record is stored
        """
        self.conclude(Outcome(Status.ERROR, message, error={"message": message}), None)
        raise StepFailed(message)

    def expire(self, reason: str) -> None:
        """Write down which limit ran out, before the workload is stopped for it: a later try must know why it ended.

        :param reason: see `runner.limits`
        """
        handle = self.known.handle
        assert handle is not None
        handle.expired = self._storable(reason)
        self.store()

    def explain(self, message: str) -> None:
        """Publish what keeps the step from going on."""
        record = self.known
        wanted = self.details(message)
        if wanted != record.status_details:
            record.status_details = wanted
            self._publish()

    def flush(self) -> None:
        """Try again what could not be published."""
        if self._dirty:
            self._publish()

    def begun(self) -> StepRecord:
        """The record, made if this is the first word about the generation."""
        if self.record is None:
            moment = self.now()
            self.record = StepRecord(
                clear_number=self._clear_number, status=Status.PENDING, created_at=moment, updated_at=moment
            )
        return self.record

    def store(self) -> None:
        """Write the record; come back only when it is stored.

        :raises Superseded: another try has taken over
        :raises StepLeft: the state store did not answer until this process had to go
        """
        insist(self._host, lambda: self._host.save(self._key, self._dump()))
        self._dirty = False

    @property
    def known(self) -> StepRecord:
        """The record, once something was begun."""
        assert self.record is not None, "nothing was begun"
        return self.record

    def details(self, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The record's `status_details` with what is new."""
        return {**self.known.status_details, **self._storable({**(details or {}), "message": message})}

    def _storable(self, value: Any) -> Any:
        stored = cleaned(value)
        return self.mask.fields(stored) if isinstance(stored, dict) else self.mask.value(stored)

    def _reached(self, status: Status) -> Status:
        """The status after one was seen that may not follow: the old one."""
        return status if may_follow(self.known.status, status) else self.known.status

    def _update(self, status: Status, details: dict[str, Any], task_name: str) -> None:
        record = self.known
        if status is Status.ACTIVE and record.started_at is None:
            record.started_at = self.now()
            record.paused_before_seconds = record.paused_until(record.started_at)
            record.paused_at, record.paused_seconds = None, 0
        record.status = status
        record.status_details = details
        record.updated_at = self.now()
        record.count_pause(record.updated_at)
        if task := record.task(task_name):
            task.status = status
            task.status_details = dict(details)
            task.updated_at = record.updated_at
        self._publish()

    def _publish(self) -> None:
        """Write if the store answers; a status that is late is better than a step that stops."""
        try:
            self._host.save(self._key, self._dump())
            self._dirty = False
        except StoreUnavailable:
            self._dirty = True

    def _dump(self) -> dict[str, Any]:
        shorten(self.known)
        return self.known.model_dump(mode="json", exclude_defaults=True)
