"""An Airflow in memory, and the service over it."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.service.access import Access
from tests.unit.service.fakes import ANN, FakeGateway


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture
def access(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> Access:
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", '["default", "research"]')
    return Access(gateway, ANN)
