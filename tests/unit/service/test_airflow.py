"""Airflow's own API as it is called in process: its refusals, and one that never answers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from nemo_airflow_provider.errors import BadRequest, Conflict, InvalidJob, NemoJobsError, Unavailable
from nemo_airflow_provider.service import airflow
from nemo_airflow_provider.service.airflow import AirflowGateway
from tests.unit.service.fakes import ANN


def serve(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> None:
    """An Airflow that always answers this."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)


def trigger() -> None:
    asyncio.run(AirflowGateway().trigger(ANN, "nemo.default.x", "job-1", {}))


@pytest.mark.parametrize(
    ("status", "detail", "kind", "text"),
    [
        (400, "DAG is not active", BadRequest, "Airflow answered 400: DAG is not active"),
        (
            409,
            {"reason": "Unique constraint", "sql": "INSERT"},
            Conflict,
            "Airflow answered 409. Its log says why.",
        ),
        (422, [{"loc": ["body"], "msg": "bad"}], InvalidJob, "Airflow answered 422. Its log says why."),
        (500, None, NemoJobsError, "Airflow answered 500. Its log says why."),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch, status: int, detail: Any, kind: type[NemoJobsError], text: str
) -> None:
    serve(monkeypatch, status, json.dumps({"detail": detail}).encode())
    with pytest.raises(NemoJobsError) as caught:
        trigger()
    assert (type(caught.value), str(caught.value)) == (kind, text)


@pytest.mark.parametrize("content", [b"<html>secret</html>", b"[1]", b""])
def test_a_refusal_that_is_no_object(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    serve(monkeypatch, 502, content)
    with pytest.raises(NemoJobsError, match="^Airflow answered 502. Its log says why.$"):
        trigger()


def test_an_airflow_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    monkeypatch.setattr(airflow, "_CALL_SECONDS", 0.05)
    with pytest.raises(Unavailable, match="Airflow has not answered POST /dags/nemo.default.x/dagRuns within 0.05 s"):
        trigger()


def test_an_airflow_that_blocks_its_loop_does_not_block_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        deadline = time.monotonic() + 10
        while len(ticks) < 3:  # a lock that is let go once our loop has done something
            assert time.monotonic() < deadline, "our event loop stands still"
            time.sleep(0.01)
        await send({"type": "http.response.start", "status": 409, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(1)

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        try:
            await AirflowGateway().trigger(ANN, "nemo.default.x", "job-1", {})
        finally:
            ticking.cancel()

    monkeypatch.setattr(airflow, "cached_app", lambda apps: app)
    with pytest.raises(Conflict):
        asyncio.run(both())
