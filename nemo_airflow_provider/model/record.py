"""What is remembered of a run beside Airflow's own tables, in the task state store of its task instances.

One writer a key: the runner writes `step/<generation>` and `result/<generation>` of its own task instance, the API
writes `intent` of every task instance and `deleted` of the first step's, the sweep `verdict/<generation>`
(`model/verdict.py`). Readers ignore fields they do not know, so a newer writer does not break an older reader, and
values they cannot read at all: Airflow's own API lets people write these keys too.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.status import Action, Status

INTENT_KEY = "intent"
DELETED_KEY = "deleted"
STEP_KEY_PREFIX = "step/"
#: XCom in which a step hands its `resumed_at` on to later ones: they cannot read its state store.
RESUMED_KEY = "nemo_resumed_at"
#: In the answer to a parked step: when the jobs API was asked for it. A person who answers on Airflow's pages has none.
ASKED_AT = "asked_at"

#: Airflow retries of a step's task: for lost workers only, a workload that fails is not run again.
STEP_RETRIES = 5


def step_key(generation: int) -> str:
    """Key of the record of one generation of a step."""
    return f"{STEP_KEY_PREFIX}{generation}"


def result_key(generation: int) -> str:
    """Key of what one generation of a step hands back."""
    return f"result/{generation}"


def generation_of_key(key: str) -> int | None:
    """The inverse of `step_key`; None for another key."""
    match = re.fullmatch(rf"{STEP_KEY_PREFIX}(0|[1-9][0-9]{{0,8}})", key, re.ASCII)
    return int(match[1]) if match else None


def generation_of(max_tries: int, retries: int = STEP_RETRIES) -> int:
    """The generation of a task instance: grows when the step is cleared after it ran.

    :param retries: Airflow retries of the task
    """
    return max(0, max_tries - retries)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("no such moment in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)


class Stored(BaseModel):
    """A value of the state store; fields of a newer writer are ignored."""

    model_config = {"extra": "ignore"}


class Handle(Stored):
    """Which workload belongs to the step, and how sure we are that it was submitted.

    :param state: `submitting` is written before the engine is asked, `submitted` after it has answered
    :param engine: the engine's identity; another one can say nothing about the workload
    :param start: starts 0, 1, … of the generation
    :param expired: why we stopped it when a limit had run out: the sentence for the step's record
    :param pausing: how it is being paused, or was: written before the engine is asked
    """

    state: Literal["submitting", "submitted"]
    engine: str
    start: int = 0
    expired: str | None = None
    pausing: Literal["stop", "freeze"] | None = None


class TaskRecord(Stored):
    """One workload of a step."""

    name: str
    start: int = 0
    status: Status
    status_details: dict[str, Any] = Field(default_factory=dict)
    error_details: dict[str, Any] = Field(default_factory=dict)
    error_stack: str | None = None
    created_at: Moment
    updated_at: Moment


class StepRecord(Stored):
    """One generation of a step.

    :param clear_number: Airflow's clear number when the generation began: the attempt it belongs to
    :param started_at: when the workload was seen running
    :param paused_seconds: how long it has been paused since then; the active TTL does not count that time
    :param paused_before_seconds: how long its start was paused before the engine had it; no limit counts that time
    :param grace_seconds: what the workload is given to end when it is asked to
    :param paused_at: since when it is paused; `paused_seconds` holds the pauses before
    :param parked_at: when its task began to give its worker slot back; None once it is at work again
    :param resumed_at: up to when pauses were answered on Airflow's own pages, where no intent is written
    """

    clear_number: int = 0
    status: Status
    status_details: dict[str, Any] = Field(default_factory=dict)
    error_details: dict[str, Any] = Field(default_factory=dict)
    created_at: Moment
    updated_at: Moment
    started_at: Moment | None = None
    paused_seconds: float = 0
    paused_before_seconds: float = 0
    ended_at: Moment | None = None
    grace_seconds: float = 0
    paused_at: Moment | None = None
    parked_at: Moment | None = None
    resumed_at: Moment | None = None
    handle: Handle | None = None
    tasks: list[TaskRecord] = Field(default_factory=list)

    def task(self, name: str) -> TaskRecord | None:
        """The task row of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    @property
    def newest_task(self) -> TaskRecord | None:
        """The task row of its last start."""
        start = self.handle.start if self.handle else None
        return next((task for task in self.tasks if task.start == start), None)

    @property
    def rests(self) -> bool:
        """Whether it is paused with nothing of it alive: its workload was stopped for that, or none was begun."""
        if self.status is not Status.PAUSED:
            return False
        if self.handle is None or self.handle.pausing == "stop" or self.handle.state == "submitting":
            return True
        return self.newest_task is not None and self.newest_task.status.terminal

    def end_paused_tasks(self, next_task: str, moment: datetime) -> None:
        """What earlier starts began will not go on."""
        for task in self.tasks:
            if not task.status.terminal and task.name != next_task:
                task.status, task.updated_at = Status.CANCELLED, moment
                task.status_details = {**task.status_details, "message": "Paused"}

    def paused_until(self, moment: datetime) -> float:
        """Seconds of pauses, with one that is not over."""
        return self.paused_seconds + ((moment - self.paused_at).total_seconds() if self.paused_at else 0.0)

    def count_pause(self, moment: datetime) -> None:
        """Begin or end to count paused time, as its status is now."""
        if self.status in (Status.PAUSED, Status.RESUMING):
            self.paused_at = self.paused_at or moment
        elif self.paused_at is not None:
            self.paused_seconds, self.paused_at = self.paused_until(moment), None


class Intent(Stored):
    """What a person asked of an attempt.

    :param clear_number: the attempt it was written for
    """

    action: Action
    by: str | None = None
    at: Moment
    clear_number: int = 0

    def binds(self, clear_number: int) -> bool:
        """Whether a step that began under `clear_number` obeys: a later rerun does not."""
        return self.clear_number >= clear_number

    def answered(self, resumed_at: datetime | None) -> bool:
        """Whether it is a pause that was resumed by then; see `StepRecord.resumed_at`."""
        return self.action is Action.PAUSE and resumed_at is not None and self.at <= resumed_at


def parse_record(value: object) -> StepRecord | None:
    """A stored step record; None for a value that is none."""
    return parse(StepRecord, value)


def parse_intent(value: object) -> Intent | None:
    """A stored intent; None for a value that is none."""
    return parse(Intent, value)


def parse_moment(value: object) -> datetime | None:
    """A stored moment; None for a value that is none."""
    try:
        return _MOMENT.validate_python(value)
    except ValidationError:
        return None


_Kind = TypeVar("_Kind", bound=Stored)


def parse(kind: type[_Kind], value: object) -> _Kind | None:
    """A stored value of this kind; None for a value that is none."""
    if not isinstance(value, dict) or flaw_in(value) is not None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def now() -> datetime:
    """The current moment, with its zone."""
    return datetime.now(UTC)
