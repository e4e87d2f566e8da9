"""Which secrets a new job may name, over an Airflow in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_airflow_provider.errors import ConfigError, Conflict, Unavailable
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import JobRequest, PlatformSpec
from nemo_airflow_provider.profiles import load_profiles
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.creation import Creation
from nemo_airflow_provider.service.gateway import Right
from nemo_airflow_provider.service.secretcheck import SECRETS_TEXT, require_secrets
from tests.unit.service.fakes import ANN, FakeGateway


def body(*references: str) -> dict[str, Any]:
    items = [{"name": f"V{number}", "from_secret": {"name": reference}} for number, reference in enumerate(references)]
    executor = {"provider": "subprocess", "command": ["true"]}
    steps = [{"name": "plain", "executor": executor}, {"name": "train", "executor": executor, "environment": items}]
    return {"name": "job-1", "source": "test", "spec": {}, "platform_spec": {"steps": steps}}


def check(gateway: FakeGateway, access: Access, *references: str) -> None:
    spec = PlatformSpec.model_validate(body(*references)["platform_spec"])
    require_secrets(gateway, access, "default", spec.steps)


@pytest.fixture
def gateway(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    monkeypatch.setenv("AIRFLOW__NEMO__SECRET_GRANTS", '[["default", "research/granted"]]')
    gateway.variables = {
        "nemo_secret.default.token",
        "nemo_secret.research.granted",
        "nemo_secret.research.kept",
    }
    return gateway


@pytest.mark.parametrize("references", [(), ("token",), ("default/token", "token", "research/granted")])
def test_what_may_be_used(gateway: FakeGateway, access: Access, references: tuple[str, ...]) -> None:
    check(gateway, access, *references)
    assert len(gateway.looked_up) == len(set(gateway.looked_up))


@pytest.mark.parametrize(
    "reference",
    ["gone", "research/gone", "research/kept", "nowhere/token", "a/b/c", "", "research/", "TOKEN", "Default/token"],
)
def test_all_that_cannot_be_had_reads_alike(gateway: FakeGateway, access: Access, reference: str) -> None:
    for references in ((reference,), ("token", reference), (reference, "token")):
        with pytest.raises(Conflict) as caught:
            check(gateway, access, *references)
        assert str(caught.value) == SECRETS_TEXT


def test_a_workspace_that_the_caller_may_not_read(gateway: FakeGateway, access: Access) -> None:
    gateway.denied = {(Right.READ, names.anchor_dag_id("research"))}
    with pytest.raises(Conflict) as caught:
        check(gateway, access, "research/granted")
    assert str(caught.value) == SECRETS_TEXT


def test_a_backend_that_fails(gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(key: str, workspace: str) -> bool:
        raise Unavailable("Airflow's secrets backend Vault failed: TimeoutError")

    monkeypatch.setattr(gateway, "has_variable", away)
    with pytest.raises(Unavailable) as caught:
        check(gateway, access, "token")
    assert str(caught.value) == (
        "Airflow's secrets backend Vault failed: TimeoutError. No job was created; try again, or see the log of the "
        "API server."
    )
    for reference in ("research/kept", "research/gone", "nowhere/token"):
        with pytest.raises(Conflict):
            check(gateway, access, reference)


def test_what_may_not_be_used_is_not_looked_up(gateway: FakeGateway, access: Access) -> None:
    for reference in ("research/kept", "research/gone"):
        with pytest.raises(Conflict):
            check(gateway, access, reference)
    assert gateway.looked_up == []


def test_the_first_that_cannot_be_had_ends_the_search(gateway: FakeGateway, access: Access) -> None:
    with pytest.raises(Conflict):
        check(gateway, access, "token", *(f"gone-{number}" for number in range(1000)))
    assert len(gateway.looked_up) == 2


def test_grants_that_are_no_list(gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__SECRET_GRANTS", "default")
    check(gateway, access, "token")
    for reference in ("research/granted", "research/gone"):
        with pytest.raises(ConfigError, match="secret_grants is not JSON"):
            check(gateway, access, reference)


def create(gateway: FakeGateway, access: Access, *references: str) -> dict[str, Any]:
    given = body(*references)
    creation = Creation(gateway, access, ANN, load_profiles(None, environ={}, probe=None))
    return asyncio.run(creation.create("default", JobRequest.model_validate(given), given))


class TestCreation:
    def test_references_are_kept_as_they_were_written(self, gateway: FakeGateway, access: Access) -> None:
        job = create(gateway, access, "token", "research/granted")
        items = job["platform_spec"]["steps"][1]["environment"]
        assert [item["from_secret"]["name"] for item in items] == ["token", "research/granted"]

    def test_refused_before_anything_is_stored(self, gateway: FakeGateway, access: Access) -> None:
        with pytest.raises(Conflict, match="one or more referenced secrets were not found"):
            create(gateway, access, "gone")
        assert (gateway.rows, gateway.shapes, gateway.locked) == ([], {}, [])

    def test_a_taken_name_is_told_first(self, gateway: FakeGateway, access: Access) -> None:
        create(gateway, access)
        with pytest.raises(Conflict, match="already exists"):
            create(gateway, access, "gone")

    def test_a_database_that_is_away(self, gateway: FakeGateway, access: Access) -> None:
        gateway.fail("has_variable")
        with pytest.raises(Unavailable, match="^Airflow's database was away. No job was created; try again.$"):
            create(gateway, access, "token")
        assert gateway.rows == []
