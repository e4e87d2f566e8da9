"""Which limit of a step has run out: a table of moments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.model.record import StepRecord, TaskRecord
from nemo_airflow_provider.model.spec import StepSpec
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.runner.limits import Limits
from tests.unit.runner.fakes import FakeConfig

BEGAN = datetime(2026, 12, 1, tzinfo=UTC)
LIMITS = Limits(before_active=30, active=100, staleness=20, engine_timer=5)
TIMED_OUT = "Job timed out after reaching max TTL of {} seconds"
STALE = "Job terminated: no task updates received within 20s staleness threshold"


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else BEGAN + timedelta(seconds=seconds)


@dataclass
class Case:
    """Moments are seconds after the start's submit."""

    name: str
    now: float
    expected: str | None
    phase: Phase = Phase.RUNNING
    status: Status = Status.ACTIVE
    started: float | None = 10
    paused: float = 0
    paused_since: float | None = None
    before: float = 0
    updated: float = 10
    row_updated: float = 10
    last_line: float | None = None
    limits: Limits = LIMITS
    row: str = "task-1"


PENDING = {"phase": Phase.PENDING, "status": Status.PENDING, "started": None}

CASES = [
    Case("pending", 30, None, **PENDING),
    Case("pending too long", 30.1, TIMED_OUT.format(30), **PENDING),
    Case("pending while it resumes", 999, None, Phase.PENDING, Status.RESUMING, None),
    Case("waiting before anything is written down", 40, None, row="task-other", **PENDING),
    Case("waiting too long before that", 40.1, TIMED_OUT.format(30), row="task-other", **PENDING),
    Case("resting before that", 999, None, row="task-other", **PENDING | {"status": Status.PAUSED}),
    Case("time before the start is not running time", 114, None, last_line=113),
    Case("running: the engine's timer comes first", 115, None, last_line=113),
    Case("running too long", 115.1, TIMED_OUT.format(100), last_line=115),
    Case("paused time does not count", 155, None, paused=40, last_line=150),
    Case("running too long beside its pauses", 155.1, TIMED_OUT.format(100), paused=40, last_line=155),
    Case("a pause that is not over does not count", 200, None, paused=40, paused_since=140, last_line=195),
    Case("pending, and paused before the engine had it", 90, None, paused=20, before=40, **PENDING),
    Case("pending, and paused meanwhile", 90, None, paused=20, paused_since=50, **PENDING),
    Case("pending too long beside a pause", 90, TIMED_OUT.format(30), paused=20, paused_since=60.1, **PENDING),
    Case("running, and not seen to start", 999, None, started=None),
    Case("quiet since its start, not long", 30, None),
    Case("stale", 30.1, STALE),
    Case("the record was updated", 44, None, updated=25),
    Case("the task was updated", 44, None, row_updated=25),
    Case("a line was printed", 44, None, last_line=25),
    Case("the newest sign is too old", 46, STALE, updated=25, row_updated=24, last_line=23),
    Case("not while it is cancelled", 99, None, status=Status.CANCELLING),
    Case("not while it is paused", 99, None, status=Status.PAUSED),
    Case("staleness is off", 99, None, limits=Limits(30, 100, 0)),
    Case("staleness is off below zero", 99, None, limits=Limits(30, 100, -5)),
    Case("the active limit comes before staleness", 200, TIMED_OUT.format(100)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_has_run_out(case: Case) -> None:
    row = TaskRecord(name=case.row, status=case.status, created_at=BEGAN, updated_at=at(case.row_updated))
    record = StepRecord(
        status=case.status,
        created_at=BEGAN,
        updated_at=at(case.updated),
        started_at=at(case.started),
        paused_seconds=case.paused,
        paused_at=at(case.paused_since),
        paused_before_seconds=case.before,
        tasks=[row],
    )
    moment = at(case.now)
    assert moment is not None
    found = case.limits.expired(record, "task-1", case.phase, moment, lambda: at(case.last_line))
    assert found == case.expected


def test_the_log_is_read_only_when_nothing_else_is_recent() -> None:
    def unread() -> datetime | None:
        raise AssertionError("the log was read")

    record = StepRecord(status=Status.ACTIVE, created_at=BEGAN, updated_at=BEGAN, started_at=BEGAN)
    assert LIMITS.expired(record, "task-1", Phase.RUNNING, BEGAN + timedelta(seconds=20), unread) is None


def test_limits_of_a_step() -> None:
    step = StepSpec.model_validate(
        {
            "name": "train",
            "executor": {"provider": "subprocess", "command": ["true"]},
            "lifecycle": {"staleness_timeout_seconds": 7},
        }
    )
    config = FakeConfig(ttl_seconds_before_active=3, ttl_seconds_active=4)
    assert Limits.of(step, config, 5.0) == Limits(3, 4, 7, 5.0)
