"""The truth table, line by line, and what must hold for every line."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_airflow_provider.model.status import (
    TASK_STATES,
    TRANSITIONS,
    Action,
    Status,
    job_status,
    may_follow,
    step_status,
    visible_steps,
)

S, A = Status, Action


def test_airflow_has_no_state_that_the_table_lacks() -> None:
    from airflow.utils.state import TaskInstanceState

    assert {None, *(str(state.value) for state in TaskInstanceState)} == set(TASK_STATES)


@pytest.mark.parametrize(
    ("state", "intent", "record", "expected"),
    [
        # nothing has happened yet
        (None, None, None, S.CREATED),
        ("scheduled", None, None, S.PENDING),
        ("queued", None, None, S.PENDING),
        (None, A.CANCEL, None, S.CANCELLING),
        # what has not begun rests at once
        (None, A.PAUSE, None, S.PAUSED),
        ("queued", A.PAUSE, None, S.PAUSED),
        ("running", A.PAUSE, None, S.PAUSED),
        ("up_for_retry", A.PAUSE, None, S.PAUSED),
        ("queued", A.RESUME, None, S.PENDING),
        # it runs
        ("running", None, None, S.PENDING),
        ("running", None, S.PENDING, S.PENDING),
        ("running", None, S.ACTIVE, S.ACTIVE),
        ("running", A.CANCEL, S.ACTIVE, S.CANCELLING),
        ("running", A.PAUSE, S.ACTIVE, S.PAUSING),
        ("running", A.PAUSE, S.PAUSED, S.PAUSED),
        ("running", A.RESUME, S.PAUSED, S.RESUMING),
        ("running", A.RESUME, S.ACTIVE, S.ACTIVE),
        ("running", A.RESUME, S.PAUSING, S.RESUMING),
        ("running", A.RESUME, S.RESUMING, S.RESUMING),
        ("running", A.PAUSE, S.RESUMING, S.PAUSING),
        ("queued", A.PAUSE, S.PAUSED, S.PAUSED),
        ("queued", A.RESUME, S.PAUSED, S.RESUMING),
        ("up_for_retry", A.PAUSE, S.ACTIVE, S.PAUSING),
        ("up_for_retry", A.PAUSE, S.PAUSED, S.PAUSED),
        ("running", A.CANCEL, S.COMPLETED, S.COMPLETED),
        ("running", None, S.ERROR, S.ERROR),
        ("deferred", None, S.ACTIVE, S.ACTIVE),
        # its worker was lost
        ("up_for_retry", None, None, S.PENDING),
        ("up_for_retry", None, S.ACTIVE, S.ACTIVE),
        ("up_for_retry", None, S.PENDING, S.ACTIVE),
        ("up_for_retry", A.CANCEL, S.ACTIVE, S.CANCELLING),
        ("up_for_retry", None, S.ERROR, S.ERROR),
        ("up_for_retry", None, S.COMPLETED, S.ACTIVE),
        ("up_for_reschedule", None, S.ACTIVE, S.ACTIVE),
        ("up_for_reschedule", None, S.PAUSED, S.PAUSED),
        ("scheduled", None, S.ACTIVE, S.ACTIVE),
        ("queued", None, S.PENDING, S.ACTIVE),
        ("queued", None, S.COMPLETED, S.COMPLETED),
        # it was cleared while it ran
        ("restarting", None, S.ACTIVE, S.PENDING),
        ("restarting", A.CANCEL, S.ACTIVE, S.CANCELLING),
        # it is parked
        ("awaiting_input", None, S.PAUSED, S.PAUSED),
        ("awaiting_input", A.PAUSE, S.PAUSED, S.PAUSED),
        ("awaiting_input", A.RESUME, S.PAUSED, S.RESUMING),
        ("awaiting_input", A.CANCEL, S.PAUSED, S.CANCELLING),
        # it is over
        ("success", None, S.COMPLETED, S.COMPLETED),
        ("success", None, S.ERROR, S.COMPLETED),
        ("success", A.CANCEL, None, S.COMPLETED),
        ("failed", None, S.ERROR, S.ERROR),
        ("failed", A.CANCEL, S.CANCELLED, S.CANCELLED),
        ("failed", A.CANCEL, None, S.CANCELLED),
        ("failed", None, None, S.ERROR),
        ("failed", None, S.ACTIVE, S.CANCELLING),
        ("failed", A.CANCEL, S.ACTIVE, S.CANCELLING),
        ("failed", None, S.COMPLETED, S.ERROR),
        ("upstream_failed", None, None, S.CANCELLED),
        ("skipped", None, None, S.CANCELLED),
        ("removed", None, None, S.CANCELLED),
        # passed over between two tries: what was begun goes on until it is stopped
        ("skipped", None, S.COMPLETED, S.COMPLETED),
        ("skipped", A.CANCEL, S.ERROR, S.ERROR),
        ("upstream_failed", None, S.CANCELLED, S.CANCELLED),
        ("skipped", None, S.ACTIVE, S.CANCELLING),
        ("skipped", A.CANCEL, S.PENDING, S.CANCELLING),
        ("removed", None, S.PAUSED, S.CANCELLING),
    ],
)
def test_step(state: str | None, intent: Action | None, record: Status | None, expected: Status) -> None:
    assert step_status(state, intent, record) is expected


@pytest.mark.parametrize("state", ["failed", "skipped", "removed", "upstream_failed"])
def test_a_step_whose_workload_had_its_grace_is_over(state: str) -> None:
    assert step_status(state, None, S.ACTIVE, over=True) is S.ERROR
    assert step_status(state, A.CANCEL, S.ACTIVE, over=True) is S.CANCELLED


def test_unknown_states_are_refused() -> None:
    with pytest.raises(ValueError, match="weird"):
        step_status("weird", None, None)


@pytest.mark.parametrize(
    ("run", "steps", "intent", "expected"),
    [
        ("queued", [S.CREATED, S.CREATED], None, S.CREATED),
        ("running", [S.PENDING, S.CREATED], None, S.PENDING),
        ("running", [S.ACTIVE, S.CREATED], None, S.ACTIVE),
        ("running", [S.COMPLETED, S.CREATED], None, S.ACTIVE),
        ("running", [S.COMPLETED, S.PENDING], None, S.ACTIVE),
        ("running", [S.COMPLETED, S.PAUSED], None, S.PAUSED),
        ("running", [S.COMPLETED, S.CANCELLING], A.CANCEL, S.CANCELLING),
        ("running", [S.CANCELLED, S.CANCELLED], A.CANCEL, S.CANCELLING),
        ("running", [S.ERROR, S.CREATED], None, S.ACTIVE),
        ("running", [S.COMPLETED, S.COMPLETED], None, S.ACTIVE),
        ("success", [S.COMPLETED, S.COMPLETED], None, S.COMPLETED),
        ("success", [S.COMPLETED, S.CANCELLED], A.CANCEL, S.CANCELLED),
        ("success", [S.CANCELLED], None, S.CANCELLED),
        ("success", [S.COMPLETED, S.CANCELLING], None, S.CANCELLING),
        ("success", [S.COMPLETED, S.ERROR], None, S.ERROR),
        ("failed", [S.COMPLETED, S.ERROR], None, S.ERROR),
        ("failed", [S.ERROR, S.CANCELLED], None, S.ERROR),
        ("failed", [S.CANCELLED, S.CANCELLED], A.CANCEL, S.CANCELLED),
        ("failed", [S.COMPLETED, S.CANCELLING], A.CANCEL, S.CANCELLING),
        ("failed", [S.COMPLETED, S.COMPLETED], None, S.ERROR),
        ("failed", [S.COMPLETED, S.COMPLETED], A.CANCEL, S.CANCELLED),
    ],
)
def test_job(run: str, steps: list[Status], intent: Action | None, expected: Status) -> None:
    assert job_status(run, steps, intent=intent) is expected


@given(st.sampled_from(["queued", "running"]), st.lists(st.sampled_from(S), min_size=1, max_size=5))
def test_a_job_is_terminal_only_when_its_run_is(run: str, steps: list[Status]) -> None:
    assert not job_status(run, steps).terminal


@pytest.mark.parametrize("intent", [None, *Action])
def test_every_line_of_the_table_has_an_answer(intent: Action | None) -> None:
    for state, record in itertools.product(TASK_STATES, [None, *Status]):
        status = step_status(state, intent, record)
        if intent is Action.CANCEL and state not in ("success", "failed"):
            assert status.terminal or status in (S.CANCELLING, S.PAUSED, record)


def test_terminal_statuses_lead_nowhere() -> None:
    assert {status for status in Status if not TRANSITIONS[status]} == {S.COMPLETED, S.ERROR, S.CANCELLED}
    assert all(may_follow(status, status) for status in Status)
    assert not may_follow(S.COMPLETED, S.ERROR)
    assert may_follow(S.PAUSING, S.CANCELLING)
    assert not may_follow(S.PAUSED, S.CANCELLED)


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ([S.CREATED, S.CREATED], 1),
        ([S.COMPLETED, S.CREATED], 2),
        ([S.COMPLETED, S.ERROR, S.CANCELLED], 2),
        ([S.COMPLETED, S.COMPLETED], 2),
        ([S.CANCELLED, S.CANCELLED], 1),
    ],
)
def test_a_steps_row_is_made_when_the_one_before_has_completed(steps: list[Status], rows: int) -> None:
    assert visible_steps(steps) == rows
