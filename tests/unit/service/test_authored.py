"""Runs of DAGs that people write: in the jobs API they are found, guarded and steered as every job."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemo_airflow_provider.errors import Conflict, Forbidden, NotFound
from nemo_airflow_provider.model import authored, names
from nemo_airflow_provider.model.record import INTENT_KEY
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.control import Control
from nemo_airflow_provider.service.gateway import Right, RunRow
from nemo_airflow_provider.service.listing import Listing, PageRequest
from nemo_airflow_provider.service.lookup import Lookup
from tests.unit.service.fakes import ANN, FakeGateway, record, spec_of

ANCHOR = names.anchor_dag_id("default")
RUN_ID = "scheduled__2026-12-01T00:00:00+00:00"
NAME = authored.job_name("Nightly", RUN_ID)


def add(gateway: FakeGateway, dag_id: str = "Nightly", **changes: object) -> RunRow:
    return gateway.add("unused", spec_of("one", "two"), dag_id=dag_id, run_id=RUN_ID, authored_in="default", **changes)


@pytest.fixture
def control(gateway: FakeGateway, access: Access, tmp_path: Path) -> Control:
    return Control(gateway, access, ANN, tmp_path)


def listed(gateway: FakeGateway, access: Access) -> list[str]:
    page = Listing(gateway, access, ["default", "research"]).jobs("default", PageRequest(1, 10, "name"), None)
    return [job["name"] for job in page["data"]]


def test_it_is_found_by_name_and_by_id(gateway: FakeGateway, access: Access) -> None:
    add(gateway)
    lookup = Lookup(gateway, access)
    job = lookup.job("default", NAME)
    assert (job.name, job.workspace, [step.spec.name for step in job.all_steps]) == (NAME, "default", ["one", "two"])
    assert lookup.job("default", job.id).name == NAME
    for unknown in (RUN_ID, "Nightly", names.run_id_of("nightly")):
        with pytest.raises(NotFound):
            lookup.job("default", unknown)


@pytest.mark.parametrize("where", ["Nightly", ANCHOR])
def test_both_the_dag_and_the_workspace_guard_it(
    gateway: FakeGateway, access: Access, control: Control, where: str
) -> None:
    add(gateway)
    assert listed(gateway, access) == [NAME]
    gateway.denied = {(Right.UPDATE, where), (Right.DELETE, where)}
    with pytest.raises(Forbidden):
        asyncio.run(control.cancel("default", NAME))
    gateway.denied = {(Right.READ, where)}
    with pytest.raises(NotFound):
        Lookup(gateway, access).job("default", NAME)
    if where == "Nightly":
        assert listed(gateway, access) == []


def test_cancel_is_an_intent_of_its_tasks(gateway: FakeGateway, control: Control) -> None:
    row = gateway.run_state(add(gateway), "running")
    gateway.step(row, "one", "running", record(Status.ACTIVE))
    assert asyncio.run(control.cancel("default", NAME))["status"] == "cancelling"
    assert {key for key in gateway.states[row.pk].values if key[1] == INTENT_KEY} == {
        ("one", INTENT_KEY),
        ("two", INTENT_KEY),
    }
    assert gateway.locked == [NAME]


def test_delete_hides_it_once_it_is_over(gateway: FakeGateway, access: Access, control: Control) -> None:
    row = add(gateway)
    with pytest.raises(Conflict):
        asyncio.run(control.delete("default", NAME))
    gateway.run_state(row, "success")
    for step in ("one", "two"):
        gateway.step(row, step, "success", record(Status.COMPLETED))
    asyncio.run(control.delete("default", NAME))
    assert listed(gateway, access) == []


def test_runs_of_two_dags_at_one_moment_are_two_jobs(gateway: FakeGateway, access: Access) -> None:
    add(gateway)
    add(gateway, "nightly")
    assert listed(gateway, access) == sorted({NAME, authored.job_name("nightly", RUN_ID)})
