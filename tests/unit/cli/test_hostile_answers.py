"""Answers whose parts are of the wrong type: what can be shown is shown, the rest ends in a sentence."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from nemo_airflow_provider.cli.loglines import log_line
from nemo_airflow_provider.cli.tables import distance
from nemo_airflow_provider.client.moments import parse_moment
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer, detail
from tests.unit.cli.shapes import JOBS, PROFILES, job, line, logs, page, status, step, task

JOB = f"{JOBS}/pz-1"
WRONG: list[Any] = [None, 10**4000, "\ud800", [1], {"a": {"b": "\x1b"}}]
MOMENTS = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-01", "2026-W01", "20260101", "x"]

# Each is called with every key of its answer, and of the first row in it, in every wrong type.
COMMANDS: dict[str, tuple[str, dict[str, Any], list[tuple[str, ...]]]] = {
    "list": (
        JOBS,
        page(job()),
        [("list", "-f", form) for form in ("table", "json", "yaml", "markdown", "csv")] + [("list", "--all-pages")],
    ),
    "get": (JOB, job(), [("get", "pz-1"), ("get", "pz-1", "-f", "yaml")]),
    "status": (
        f"{JOB}/status",
        status(status="error"),
        [("get-status", "pz-1"), ("watch", "pz-1"), ("tail", "pz-1", "-F")],
    ),
    "logs": (
        f"{JOB}/logs",
        logs(line("m")),
        [
            ("get-logs", "pz-1"),
            ("get-logs", "pz-1", "--all-pages"),
            ("tail", "pz-1"),
            ("watch", "pz-1"),
            ("tail", "pz-1", "-F"),
        ],
    ),
    "steps": (f"{JOB}/steps", page(step()), [("steps", "list", "pz-1", "-f", "table")]),
    "tasks": (f"{JOB}/steps/s/tasks", {"data": [task()]}, [("tasks", "list", "s", "--job", "pz-1", "-f", "csv")]),
}


def spoilt(shape: dict[str, Any]) -> list[dict[str, Any]]:
    """Every key of the answer, of its first row and of its pagination in every wrong type."""
    found = [{**shape, key: value} for key in shape for value in WRONG]
    for key in ("data", "pagination"):
        part = shape.get(key)
        inner = part[0] if isinstance(part, list) else part or {}
        for name in inner:
            for value in WRONG + (MOMENTS if name in ("timestamp", "created_at") else []):
                other = {**inner, name: value}
                found.append({**shape, key: [other] if isinstance(part, list) else other})
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_no_answer_is_unexpected(name: str, server: FakeServer, nemo: Nemo) -> None:
    path, shape, commands = COMMANDS[name]
    server.on("GET", f"{JOB}/status", Answer(status())).on("GET", f"{JOB}/logs", Answer(logs(line("m"))))
    for number, body in enumerate(spoilt(shape)):
        # Whoever goes on asking is told the truth.
        server.on("GET", path, Answer(body), Answer(shape))
        result = nemo("jobs", *commands[number % len(commands)])
        assert "Unexpected error" not in result.err, (body, result.err)
        assert result.code in (0, 1, 3)


@pytest.mark.parametrize("body", [*WRONG, [[]], [{"provider": []}], [{"config": {"a": None}}]])
def test_no_list_of_profiles_is_unexpected(body: Any, server: FakeServer, nemo: Nemo) -> None:
    server.on("GET", PROFILES, Answer(body))
    assert "Unexpected error" not in nemo("jobs", "list-execution-profiles", "-f", "table").err


@pytest.mark.parametrize("value", [*WRONG, [{"msg": "x", "loc": 5}], [{"msg": [], "loc": [[], {}]}], [{"loc": []}]])
@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422, 500, 503])
def test_no_detail_is_unexpected(code: int, value: Any, server: FakeServer, nemo: Nemo) -> None:
    server.on("DELETE", JOB, detail(code, value, x_should_retry="false"))
    result = nemo("jobs", "delete", "pz-1")
    assert "Unexpected error" not in result.err
    assert result.code == 3


@pytest.mark.parametrize("form", ["json", "yaml", "raw"])
@pytest.mark.parametrize("depth", [90, 140, 300, 900, 5000])
def test_a_deep_answer(form: str, depth: int, server: FakeServer, nemo: Nemo) -> None:
    body = json.dumps(job()).replace('"spec": {}', '"spec": ' + "[" * depth + "]" * depth)
    server.on("GET", JOB, Answer(body.encode()))
    result = nemo("jobs", "get", "pz-1", "-f", form)
    if depth < 150:
        assert (result.code, result.err) == (0, "")
    else:
        assert result.err.startswith("API response error: the answer is nested too deeply\n")


def test_pages_that_go_round_in_a_circle(server: FakeServer, nemo: Nemo) -> None:
    server.on("GET", JOBS, Answer(page(job(), number=1, pages=3)))
    result = nemo("jobs", "list", "--all-pages")
    assert result.err.startswith("API response error: page 2 was asked for, and the server gave page 1\n")
    assert (result.code, len(server.seen)) == (3, 2)


@pytest.mark.parametrize("expiry", [10**400, 1e300, -1, "nan", [], {}])
def test_a_login_with_any_expiry(expiry: Any, server: FakeServer, nemo: Nemo) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expiry}).encode()).decode()
    server.on("GET", "/auth/token", Answer({"access_token": f"a.{claims}.c"}, 201))
    result = nemo("login")
    assert (result.code, "valid until" in result.err) == (0, False)


@pytest.mark.parametrize("moment", MOMENTS)
def test_moments_at_the_ends_of_time(moment: str) -> None:
    assert log_line({"timestamp": moment, "message": "m"}).endswith("] m")
    now = parse_moment("2026-12-01T00:00:00Z")
    assert now is not None
    assert distance(moment, now)
