"""The ten statuses, what may follow what, and the one truth table from Airflow's states to them.

Statuses and transitions: job specification contract §4. Everything here is pure; who reads the states and the
records is `service/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Status(StrEnum):
    """Status of a job, attempt, step or task; the wire knows no other value."""

    CREATED = "created"
    PENDING = "pending"
    ACTIVE = "active"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows (within this generation)."""
        return self in TERMINAL


class Action(StrEnum):
    """What a person asked of a job; the API writes it, a step obeys it."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


#: What a parked step offers on Airflow's pages.
OPTIONS = {"Resume": Action.RESUME, "Cancel": Action.CANCEL}

_S = Status
TERMINAL = frozenset({_S.COMPLETED, _S.ERROR, _S.CANCELLED})

_ENDS = {_S.ERROR, _S.CANCELLING, _S.CANCELLED}
TRANSITIONS: dict[Status, frozenset[Status]] = {
    _S.CREATED: frozenset({_S.PENDING, _S.ACTIVE, _S.PAUSING, _S.PAUSED, *_ENDS}),
    _S.PENDING: frozenset({_S.ACTIVE, _S.COMPLETED, _S.PAUSING, _S.PAUSED, *_ENDS}),
    _S.ACTIVE: frozenset({_S.COMPLETED, _S.PAUSING, _S.PAUSED, *_ENDS}),
    _S.PAUSED: frozenset({_S.RESUMING, _S.ACTIVE, _S.CANCELLING}),
    # Upstream forbids pausing → cancelling; ours allows it (contract/choices).
    # So it is with pausing → resuming and the way back: whoever changes their mind need not wait for the end of either.
    _S.PAUSING: frozenset({_S.PAUSED, _S.RESUMING, _S.ERROR, _S.CANCELLING}),
    _S.RESUMING: frozenset({_S.PENDING, _S.ACTIVE, _S.PAUSING, _S.PAUSED, _S.ERROR, _S.CANCELLING}),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.ERROR}),
    _S.COMPLETED: frozenset(),
    _S.ERROR: frozenset(),
    _S.CANCELLED: frozenset(),
}


def may_follow(before: Status, after: Status) -> bool:
    """Whether a record in status `before` may become `after` (the same again always may)."""
    return before is after or after in TRANSITIONS[before]


#: Airflow's task-instance states by what they mean for a step. `None` is a task the scheduler has not looked at.
WAITING: frozenset[str | None] = frozenset({None, "scheduled", "queued"})
_HELD = frozenset({"running", "deferred"})
_BETWEEN_TRIES = frozenset({"up_for_retry", "up_for_reschedule"})
#: Airflow passed it over, or took it back between two tries of it (a run marked failed skips such tasks).
_PASSED_OVER = frozenset({"upstream_failed", "skipped", "removed"})
TASK_STATES: frozenset[str | None] = (
    WAITING | _HELD | _BETWEEN_TRIES | _PASSED_OVER | {"success", "failed", "restarting", "awaiting_input"}
)

#: Airflow's states of a run that is over.
RUN_OVER = ("success", "failed")

_ASKED = {Action.CANCEL: _S.CANCELLING, Action.PAUSE: _S.PAUSING}


def step_status(task_state: str | None, intent: Action | None, record: Status | None, *, over: bool = False) -> Status:
    """The status of a step.

    :param task_state: Airflow's state of its task instance
    :param intent: what was asked of this attempt and not taken back
    :param record: status in the record of the step's current generation; None when it has not run in it
    :param over: the workload of a task instance that Airflow ended has had all its grace: nothing is still stopping
    :raises ValueError: a state that Airflow does not have
    """
    if task_state not in TASK_STATES:
        raise ValueError(f"unknown task instance state {task_state!r}")
    if task_state == "success":
        return _S.COMPLETED
    if task_state == "failed":
        return _failed(intent, record, over)
    if task_state in _PASSED_OVER:
        return _passed_over(intent, record, over)
    if task_state == "awaiting_input":
        return {Action.CANCEL: _S.CANCELLING, Action.RESUME: _S.RESUMING}.get(intent or Action.PAUSE, _S.PAUSED)
    if task_state == "restarting":  # the record belongs to the execution that is being stopped
        return _ASKED.get(intent, _S.PENDING) if intent else _S.PENDING
    if task_state in _BETWEEN_TRIES:
        return _lost_worker(intent, record)
    return _live(task_state, intent, record)


def _failed(intent: Action | None, record: Status | None, over: bool) -> Status:
    if record in (_S.ERROR, _S.CANCELLED):
        return record
    if record is None:
        return _S.CANCELLED if intent is Action.CANCEL else _S.ERROR
    if record is _S.COMPLETED:  # a person marked a finished step failed
        return _S.ERROR
    if not over:
        return _S.CANCELLING  # marked failed in Airflow, or cancelled: the workload is being stopped
    return _S.CANCELLED if intent is Action.CANCEL else _S.ERROR


def _passed_over(intent: Action | None, record: Status | None, over: bool) -> Status:
    if record is None:
        return _S.CANCELLED
    return record if record.terminal else _failed(intent, record, over)


def _lost_worker(intent: Action | None, record: Status | None) -> Status:
    if record is not None and record.terminal and record is not _S.COMPLETED:
        return record
    if intent is Action.PAUSE and record is None:
        return _S.PAUSED
    if intent in _ASKED and record is not _S.PAUSED:
        return _ASKED[intent]
    if record in (_S.PAUSED, _S.PAUSING, _S.RESUMING):
        return record
    return _S.ACTIVE if record is not None else _S.PENDING


def _live(task_state: str | None, intent: Action | None, record: Status | None) -> Status:
    if record is not None and record.terminal:
        # A terminal record under a waiting task instance: its worker was lost after the end; the next try
        # reads the record and reports it.
        return record
    if intent is Action.CANCEL:
        return _S.CANCELLING
    if intent is Action.PAUSE:
        # A step that has not begun rests at once, wherever it is then: it will start nothing.
        return _S.PAUSED if record in (None, _S.PAUSED) else _S.PAUSING
    if intent is Action.RESUME and record in (_S.PAUSED, _S.PAUSING):
        return _S.RESUMING
    if record is not None and record is not _S.CREATED:
        return _S.ACTIVE if task_state not in _HELD and record is _S.PENDING else record
    return _S.CREATED if task_state is None else _S.PENDING


def job_status(run_state: str, steps: Sequence[Status], *, intent: Action | None = None) -> Status:
    """The status of a job out of its run's state and its steps in order.

    A job is terminal only when its run is. Between two steps it is active.

    :param run_state: Airflow's dag run state (`queued`, `running`, `success`, `failed`)
    :param steps: status of each step of the spec, in order
    :param intent: what was asked of this attempt and not taken back
    """
    if run_state == "success" and _ENDS.isdisjoint(steps):
        return _S.COMPLETED
    if run_state in RUN_OVER:
        # To Airflow a run whose last step was skipped is a success, and its scheduler may say so over a mark.
        return _ended(steps, intent)
    for index, status in enumerate(steps):
        if status is _S.COMPLETED:
            continue
        if status is _S.CANCELLED:
            return _S.CANCELLING
        if status is _S.ERROR or (index > 0 and status in (_S.CREATED, _S.PENDING)):
            return _S.ACTIVE
        return status
    return _S.ACTIVE


def _ended(steps: Sequence[Status], intent: Action | None) -> Status:
    if _S.ERROR in steps:
        return _S.ERROR
    if _S.CANCELLING in steps:
        return _S.CANCELLING
    if _S.CANCELLED in steps or intent is Action.CANCEL:
        return _S.CANCELLED
    return _S.ERROR


def visible_steps(steps: Sequence[Status]) -> int:
    """How many steps have a row: a step's row is made when the one before it has completed (contract §4)."""
    for index, status in enumerate(steps):
        if status is not _S.COMPLETED:
            return index + 1
    return len(steps)
