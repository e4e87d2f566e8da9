"""Pause and resume, over an Airflow in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from nemo_airflow_provider.backends.registry import BACKENDS, BackendEntry
from nemo_airflow_provider.errors import Conflict, Forbidden
from nemo_airflow_provider.model.record import INTENT_KEY, Handle, Intent, now, parse_intent
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.profiles import ProfileSet, load_profiles
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.control import Control
from nemo_airflow_provider.service.gateway import Right, RunRow
from nemo_airflow_provider.service.lookup import Lookup
from tests.unit.service.fakes import ANN, FakeGateway, Time, record, spec_of

STOPPED = Handle(state="submitted", engine="engine-1", pausing="stop")
FROZEN = Handle(state="submitted", engine="engine-1", pausing="freeze")
LONG_AGO = now() - timedelta(minutes=1)


@pytest.fixture
def profiles() -> ProfileSet:
    return load_profiles(None, environ={}, probe=None)


@pytest.fixture
def pause(control: Control, profiles: ProfileSet) -> Callable[[], dict[str, Any]]:
    return lambda: asyncio.run(control.pause("default", "job-1", profiles))


@pytest.fixture
def resume(control: Control) -> Callable[[], dict[str, Any]]:
    return lambda: asyncio.run(control.resume("default", "job-1"))


def running(gateway: FakeGateway, state: str | None, status: Status | None, **changes: Any) -> RunRow:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    gateway.step(row, "one", state, record(status, **changes) if status else None, updated_at=LONG_AGO)
    return row


def asked(gateway: FakeGateway, row: RunRow) -> set[str | None]:
    values = gateway.states[row.pk].values
    return {(values.get((task, INTENT_KEY)) or {}).get("action") for task in ("one", "two")}


@pytest.mark.parametrize(
    ("state", "status", "answer", "message"),
    [
        (None, None, "paused", "Job is paused"),
        ("scheduled", None, "paused", "Job is paused"),
        ("running", Status.ACTIVE, "pausing", "Job is pausing"),
        ("running", Status.RESUMING, "pausing", "Job is pausing"),
    ],
)
def test_pause(
    gateway: FakeGateway,
    pause: Callable[[], dict[str, Any]],
    state: str | None,
    status: Status | None,
    answer: str,
    message: str,
) -> None:
    row = running(gateway, state, status)
    job = pause()
    assert (job["status"], job["status_details"]["message"]) == (answer, message)
    assert asked(gateway, row) == {"pause"}
    assert job["updated_at"] > job["created_at"]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.ERROR])
def test_a_job_that_is_over_stays_as_it_is(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any], status: Status
) -> None:
    row = gateway.run_state(gateway.add("job-1"), "success" if status is Status.COMPLETED else "failed")
    gateway.step(row, "train", "success" if status is Status.COMPLETED else "failed", record(status))
    before = gateway.states[row.pk]
    assert pause()["status"] == resume()["status"] == status
    assert gateway.states[row.pk] == before


@pytest.mark.parametrize("status", [Status.PENDING, Status.ACTIVE])
def test_a_job_that_is_not_paused_has_nothing_to_resume(
    gateway: FakeGateway, resume: Callable[[], Any], status: Status
) -> None:
    row = running(gateway, "running", status)
    assert resume()["status"] == status
    assert asked(gateway, row) == {None}


def test_a_parked_step_is_woken(gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any]) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "awaiting_input", record(Status.PAUSED, handle=STOPPED, parked_at=LONG_AGO))
    assert pause()["status"] == "paused"
    assert resume()["status"] == "resuming"
    assert (asked(gateway, row), gateway.answers) == ({"resume"}, [("one", "Resume")])


def test_one_that_is_about_to_park_is_woken_then(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any], time: Time
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "running", record(Status.PAUSED, handle=FROZEN, parked_at=now()))
    time.meanwhile = lambda: gateway.step(row, "one", "awaiting_input")
    resume()
    assert (gateway.answers, time.now) == ([("one", "Resume")], 0.1)


def test_one_that_has_just_parked_is_let_be_for_a_while(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any], time: Time
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    left = record(Status.PAUSED, handle=FROZEN, parked_at=now())
    gateway.step(row, "one", "awaiting_input", left, updated_at=now() + timedelta(seconds=600))
    answered_at: list[float] = []
    time.meanwhile = lambda: time.now > 3 and gateway.step(row, "one", "awaiting_input", updated_at=LONG_AGO)
    resume()
    answered_at.append(time.now)
    assert gateway.answers and answered_at[0] > 3


def test_a_pause_that_comes_before_the_answer_is_not_answered(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any], time: Time
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "running", record(Status.PAUSED, handle=FROZEN, parked_at=now()))

    def meanwhile() -> None:
        intent = Intent(action=Action.PAUSE, by="bob", at=now())
        gateway.write_value(row, ["one", "two"], INTENT_KEY, intent.model_dump(mode="json"))
        gateway.step(row, "one", "awaiting_input")

    time.meanwhile = meanwhile
    assert resume()["status"] == "paused"
    assert not gateway.answers


def test_a_step_is_told_what_it_is_woken_for(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any]
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "awaiting_input", record(Status.PAUSED, handle=FROZEN, parked_at=LONG_AGO))
    resume()
    intent = parse_intent(gateway.states[row.pk].values["one", INTENT_KEY])
    assert intent is not None
    assert gateway.answered_for == [intent.at]


def test_a_cancel_wakes_a_parked_step(gateway: FakeGateway, pause: Callable[[], Any], control: Control) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "awaiting_input", record(Status.PAUSED, handle=FROZEN, parked_at=LONG_AGO))
    assert asyncio.run(control.cancel("default", "job-1"))["status"] == "cancelling"
    assert (asked(gateway, row), gateway.answers) == ({"cancel"}, [("one", "Cancel")])


def test_who_may_not_answer_changes_nothing(
    gateway: FakeGateway, pause: Callable[[], Any], resume: Callable[[], Any]
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "awaiting_input", record(Status.PAUSED, handle=FROZEN, parked_at=LONG_AGO))
    gateway.denied = {(Right.ANSWER, row.dag_id)}
    with pytest.raises(Forbidden, match="answer the required actions of"):
        resume()
    assert asked(gateway, row) == {"pause"}


def test_a_backend_without_the_power_is_named(
    gateway: FakeGateway, pause: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    monkeypatch.setattr(BackendEntry, "has", lambda self, power: False)
    assert BACKENDS["subprocess"].provided
    with pytest.raises(Conflict, match=r"step 'one' runs with .* 'subprocess/default', whose backend 'subprocess'"):
        pause()
    assert asked(gateway, row) == {None}


def test_a_pause_that_was_answered_on_airflows_pages_is_over(gateway: FakeGateway, pause: Callable[[], Any]) -> None:
    row = running(gateway, "running", Status.ACTIVE)
    pause()
    gateway.step(row, "one", "queued", record(Status.PAUSED, handle=FROZEN, resumed_at=now()))
    access = Access(gateway, ANN)
    assert Lookup(gateway, access).job("default", "job-1").status is Status.RESUMING


@pytest.mark.parametrize(("handle", "status"), [(STOPPED, Status.ERROR), (FROZEN, Status.CANCELLING)])
def test_a_parked_step_that_is_marked_failed_is_over_if_nothing_of_it_lives(
    gateway: FakeGateway, access: Access, handle: Handle, status: Status
) -> None:
    row = gateway.run_state(gateway.add("job-1"), "failed")
    gateway.step(row, "train", "failed", record(Status.PAUSED, handle=handle, parked_at=LONG_AGO), end_date=now())
    assert Lookup(gateway, access).job("default", "job-1").status is status
