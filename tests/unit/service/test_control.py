"""Cancel and delete, over an Airflow in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.errors import Conflict, Forbidden, NotFound, Unavailable
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import INTENT_KEY, STEP_RETRIES
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.control import Control
from nemo_airflow_provider.service.gateway import Right
from tests.unit.service.fakes import FakeGateway, Time, record, spec_of

ANCHOR = names.anchor_dag_id("default")


def test_cancel_before_the_start_ends_the_run_at_once(gateway: FakeGateway, control: Control) -> None:
    row = gateway.add("job-1")
    job = asyncio.run(control.cancel("default", "job-1"))
    assert (job["status"], gateway.marked) == ("cancelled", [row.pk])


def test_cancel_in_mid_step_is_an_intent(gateway: FakeGateway, control: Control) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two"), clear_number=2), "running")
    gateway.step(row, "one", "running", record(Status.ACTIVE, clear_number=2))
    job = asyncio.run(control.cancel("default", "job-1"))
    assert (job["status"], gateway.marked) == ("cancelling", [])
    for task_id in ("one", "two"):
        intent = gateway.states[row.pk].values[task_id, INTENT_KEY]
        assert (intent["action"], intent["by"], intent["clear_number"]) == ("cancel", "ann", 2)


@pytest.mark.parametrize("waits_in", [None, "scheduled", "queued"])
def test_cancel_ends_the_run_when_every_step_is_done_or_waits(
    gateway: FakeGateway, control: Control, waits_in: str | None
) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    gateway.step(row, "one", "success", record(Status.COMPLETED))
    gateway.step(row, "two", waits_in)
    asyncio.run(control.cancel("default", "job-1"))
    assert gateway.marked == [row.pk]


def test_cancel_again_ends_a_run_that_has_begun_to_wait(gateway: FakeGateway, control: Control) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    gateway.step(row, "one", "running", record(Status.ACTIVE))
    asyncio.run(control.cancel("default", "job-1"))
    assert gateway.marked == []
    gateway.step(row, "one", "success", record(Status.COMPLETED))
    asyncio.run(control.cancel("default", "job-1"))
    assert gateway.marked == [row.pk]


@pytest.mark.parametrize("state", ["running", "up_for_retry", "restarting"])
def test_cancel_leaves_a_step_with_a_worker_to_it(gateway: FakeGateway, control: Control, state: str) -> None:
    row = gateway.run_state(gateway.add("job-1"), "running")
    gateway.step(row, "train", state)
    asyncio.run(control.cancel("default", "job-1"))
    assert gateway.marked == []


def test_cancel_of_a_job_that_is_over_changes_nothing(gateway: FakeGateway, control: Control) -> None:
    row = gateway.run_state(gateway.add("job-1"), "success")
    gateway.step(row, "train", "success", record(Status.COMPLETED))
    before = gateway.states[row.pk]
    job = asyncio.run(control.cancel("default", "job-1"))
    assert (job["status"], gateway.states[row.pk]) == ("completed", before)


@pytest.mark.parametrize("state", [None, "scheduled", "queued"])
@pytest.mark.parametrize("left", [Status.PENDING, Status.ACTIVE, Status.PAUSED])
def test_cancel_leaves_a_rerun_to_the_runner_that_stops_what_is_left(
    gateway: FakeGateway, control: Control, state: str | None, left: Status
) -> None:
    row = gateway.run_state(gateway.add("job-1", clear_number=1), "running")
    gateway.step(row, "train", "running", record(left))
    gateway.step(row, "train", state, max_tries=STEP_RETRIES + 1)
    job = asyncio.run(control.cancel("default", "job-1"))
    assert (job["status"], gateway.marked) == ("cancelling", [])
    assert gateway.states[row.pk].values["train", INTENT_KEY]["clear_number"] == 1


def test_cancel_ends_a_waiting_rerun_at_once_when_nothing_is_left(gateway: FakeGateway, control: Control) -> None:
    row = gateway.run_state(gateway.add("job-1", clear_number=1), "running")
    gateway.step(row, "train", "failed", record(Status.ERROR))
    gateway.step(row, "train", "queued", max_tries=STEP_RETRIES + 1)
    asyncio.run(control.cancel("default", "job-1"))
    assert gateway.marked == [row.pk]


def test_cancel_waits_until_airflow_has_noted_a_steps_end(gateway: FakeGateway, control: Control, time: Time) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    gateway.step(row, "one", "running", record(Status.COMPLETED))
    time.meanwhile = lambda: gateway.step(row, "one", "success")
    asyncio.run(control.cancel("default", "job-1"))
    assert (gateway.marked, time.now) == ([row.pk], 0.1)


def test_cancel_does_not_wait_for_ever(gateway: FakeGateway, control: Control, time: Time) -> None:
    row = gateway.run_state(gateway.add("job-1", spec_of("one", "two")), "running")
    gateway.step(row, "one", "running", record(Status.COMPLETED))
    assert asyncio.run(control.cancel("default", "job-1"))["status"] == "cancelling"
    assert gateway.marked == [] and 3 < time.now < 3.3


def test_delete(gateway: FakeGateway, control: Control, tmp_path: Path) -> None:
    row = gateway.run_state(gateway.add("job-1"), "success")
    gateway.step(row, "train", "success", record(Status.COMPLETED))
    log = tmp_path / "logs" / "default" / names.run_key(row.dag_id, row.run_id, row.run_after)
    (log / "0-0").mkdir(parents=True)
    asyncio.run(control.delete("default", "job-1"))
    assert not log.exists()
    with pytest.raises(NotFound):
        asyncio.run(control.delete("default", "job-1"))


def test_a_job_that_is_not_over_stays(gateway: FakeGateway, control: Control) -> None:
    gateway.run_state(gateway.add("job-1"), "running")
    with pytest.raises(Conflict, match="Cannot delete job 'job-1' while it is 'created'. Cancel the job and wait"):
        asyncio.run(control.delete("default", "job-1"))


def call(control: Control, right: Right) -> Any:
    return asyncio.run((control.cancel if right is Right.UPDATE else control.delete)("default", "job-1"))


@pytest.mark.parametrize("right", [Right.UPDATE, Right.DELETE])
@pytest.mark.parametrize("where", ["anchor", "shape"])
def test_both_the_anchor_and_the_shape_are_asked(
    gateway: FakeGateway, control: Control, right: Right, where: str
) -> None:
    row = gateway.run_state(gateway.add("job-1"), "success")
    gateway.step(row, "train", "success", record(Status.COMPLETED))
    gateway.denied = {(right, ANCHOR if where == "anchor" else row.dag_id)}
    with pytest.raises(Forbidden, match="You may read workspace 'default' but not"):
        call(control, right)
    assert (gateway.rows[0].deleted, gateway.held) == (False, set())


@pytest.mark.parametrize("right", [Right.UPDATE, Right.DELETE])
def test_the_right_is_asked_of_the_job_that_is_changed(
    gateway: FakeGateway, control: Control, right: Right, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the lock is waited for, the job is deleted and another shape takes its name."""
    old = gateway.run_state(gateway.add("job-1"), "success")
    gateway.step(old, "train", "success", record(Status.COMPLETED))
    lock = gateway.name_lock

    def late(workspace: str, name: str, shape: str | None = None) -> Any:
        gateway.rows[0] = replace(gateway.rows[0], deleted=True)
        new = gateway.run_state(gateway.add("job-1", spec_of("other"), run_id="job-1~2"), "success")
        gateway.step(new, "other", "success", record(Status.COMPLETED))
        gateway.denied = {(right, new.dag_id)}
        return lock(workspace, name)

    monkeypatch.setattr(gateway, "name_lock", late)
    with pytest.raises(Forbidden):
        call(control, right)
    assert not gateway.rows[1].deleted


UNCHANGED = "Airflow's database was away. Nothing was changed; try again."
LOOK = "Airflow's database was away. The change may have been stored: look at job 'job-1' before you try again."


class TestDatabaseThatFails:
    """What is told of it is true: what was stored stays stored."""

    @pytest.fixture
    def over(self, gateway: FakeGateway) -> None:
        row = gateway.run_state(gateway.add("job-1"), "success")
        gateway.step(row, "train", "success", record(Status.COMPLETED))

    def told(self, control: Control, right: Right) -> str:
        with pytest.raises(Unavailable) as caught:
            call(control, right)
        return str(caught.value)

    @pytest.mark.parametrize("right", [Right.UPDATE, Right.DELETE])
    @pytest.mark.parametrize("calls", [0, 1], ids=["before the lock", "under the lock"])
    def test_before_the_write(self, gateway: FakeGateway, control: Control, right: Right, calls: int) -> None:
        row = gateway.add("job-1")
        before = gateway.states[row.pk]
        gateway.fail("states_of", after=calls)
        assert self.told(control, right) == UNCHANGED
        assert (gateway.states[row.pk], gateway.held) == (before, set())

    @pytest.mark.parametrize("right", [Right.UPDATE, Right.DELETE])
    def test_the_lock_cannot_be_had(self, gateway: FakeGateway, control: Control, right: Right) -> None:
        gateway.add("job-1")
        gateway.fail("name_lock")
        assert self.told(control, right) == UNCHANGED

    @pytest.mark.parametrize(("undone", "text"), [(True, UNCHANGED), (False, LOOK)])
    def test_the_write_of_a_cancel(self, gateway: FakeGateway, control: Control, undone: bool, text: str) -> None:
        gateway.add("job-1")
        gateway.fail("write_value", undone=undone)
        assert self.told(control, Right.UPDATE) == text

    @pytest.mark.parametrize(("undone", "text"), [(True, UNCHANGED), (False, LOOK)])
    @pytest.mark.usefixtures("over")
    def test_the_write_of_a_delete(self, gateway: FakeGateway, control: Control, undone: bool, text: str) -> None:
        gateway.fail("write_value", undone=undone)
        assert self.told(control, Right.DELETE) == text

    @pytest.mark.parametrize("undone", [True, False])
    def test_a_read_after_the_write(self, gateway: FakeGateway, control: Control, undone: bool) -> None:
        row = gateway.add("job-1")
        gateway.fail("states_of", after=2, undone=undone)
        assert self.told(control, Right.UPDATE) == LOOK
        assert gateway.states[row.pk].values["train", INTENT_KEY]["action"] == "cancel"

    def test_the_end_of_a_waiting_run_is_asked_for_again(self, gateway: FakeGateway, control: Control) -> None:
        """Airflow's API and its scheduler lock a run's rows in different orders: one of them loses a deadlock."""
        row = gateway.add("job-1")
        gateway.fail("mark_failed", times=3, undone=False)
        job = asyncio.run(control.cancel("default", "job-1"))
        assert (job["status"], gateway.marked) == ("cancelled", [row.pk])

    def test_a_run_that_has_begun_meanwhile_is_left_to_its_step(
        self, gateway: FakeGateway, control: Control, time: Time
    ) -> None:
        row = gateway.add("job-1")
        gateway.fail("mark_failed", times=1)
        time.meanwhile = lambda: gateway.step(row, "train", "running", record(Status.ACTIVE))
        job = asyncio.run(control.cancel("default", "job-1"))
        assert (job["status"], gateway.marked) == ("cancelling", [])

    def test_a_rerun_that_waits_meanwhile_is_not_ended(
        self, gateway: FakeGateway, control: Control, time: Time
    ) -> None:
        row = gateway.add("job-1")
        gateway.fail("mark_failed", times=1)
        time.meanwhile = lambda: gateway.rows.__setitem__(row.pk - 1, replace(row, clear_number=1))
        asyncio.run(control.cancel("default", "job-1"))
        assert gateway.marked == []

    def test_the_end_of_a_waiting_run_fails_for_good(self, gateway: FakeGateway, control: Control) -> None:
        row = gateway.add("job-1")
        gateway.fail("mark_failed")
        assert self.told(control, Right.UPDATE) == LOOK
        assert gateway.states[row.pk].values["train", INTENT_KEY]["action"] == "cancel"

    def test_a_read_after_the_run_was_ended(self, gateway: FakeGateway, control: Control) -> None:
        row = gateway.add("job-1")
        gateway.fail("states_of", after=3, undone=True)
        assert self.told(control, Right.UPDATE) == LOOK
        assert gateway.marked == [row.pk]
