"""Airflow's own API as it is called in process: its refusals, and one that never answers."""

from __future__ import annotations

import asyncio
import json
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
