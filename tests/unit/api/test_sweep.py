"""The sweep's routes: what waits for the database or the storage is no work for the server's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from nemo_airflow_provider.api import sweep
from nemo_airflow_provider.api.app import create_app


class Office:
    """Says whether it was asked in an event loop."""

    def __init__(self) -> None:
        self.in_loop: list[bool] = []

    def admit(self, installation: str) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.in_loop.append(False)
        else:
            self.in_loop.append(True)

    async def chores(self) -> dict[str, int]:
        return {}

    def standings(self, jobs: object) -> list[object]:
        return []

    async def settle(self, endings: object) -> int:
        return 0


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def client(office: Office) -> Iterator[TestClient]:
    app = create_app()
    app.dependency_overrides = {sweep.office: lambda: office}
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize("path", ["chores", "standings", "endings"])
def test_who_asks_is_checked_outside_the_event_loop(client: TestClient, office: Office, path: str) -> None:
    answer = client.post(f"/internal/sweep/{path}", json={"installation": "x", "jobs": [], "endings": []})
    assert answer.status_code == 200, answer.text
    assert office.in_loop == [False]
