"""An Airflow in memory, and the service over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.control import Control
from tests.unit.service.fakes import ANN, FakeGateway, Time


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture
def access(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> Access:
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", '["default", "research"]')
    return Access(gateway, ANN)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def control(gateway: FakeGateway, access: Access, time: Time, tmp_path: Path) -> Control:
    return Control(gateway, access, ANN, tmp_path, clock=time.clock, sleep=time.sleep)
