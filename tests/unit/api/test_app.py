"""The mounted app over HTTP: how it refuses bodies that are wrong, too long, or both."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_airflow_provider.api import dependencies
from nemo_airflow_provider.api.app import create_app
from nemo_airflow_provider.api.bodylimit import MAX_BODY_BYTES
from nemo_airflow_provider.model.names import NAME_PATTERN

JOBS = "/v2/workspaces/default/jobs"
TOO_LONG = (
    "The request body is longer than 8 MiB, the most that is taken. Give large inputs by reference, for example as a "
    "path or a URL in the step's config."
)


class Created:
    """A service that takes every job."""

    def __init__(self) -> None:
        self.names: list[str | None] = []

    def creation(self, profiles: object) -> Created:
        return self

    async def create(self, workspace: str, request: Any, given: object) -> dict[str, Any]:
        self.names.append(request.name)
        return {"name": request.name}


@pytest.fixture
def created() -> Created:
    return Created()


@pytest.fixture
def client(created: Created) -> Iterator[TestClient]:
    app = create_app()
    app.dependency_overrides = {dependencies.services: lambda: created, dependencies.profiles: lambda: None}
    with TestClient(app, headers={"content-type": "application/json"}) as client:
        yield client


def step(**changes: Any) -> dict[str, Any]:
    return {"name": "train", "executor": {"provider": "subprocess", "command": ["true"]}} | changes


def body(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "job-1", "source": "test", "spec": {}, "platform_spec": {"steps": steps or [step()]}} | changes


def problems(client: TestClient, content: object) -> list[dict[str, Any]]:
    """`detail` of a 422."""
    answer = client.post(JOBS, json=content)
    assert answer.status_code == 422, answer.text
    found: list[dict[str, Any]] = answer.json()["detail"]
    return found


class TestInvalid:
    def test_a_problem_says_what_was_given(self, client: TestClient) -> None:
        (problem,) = problems(client, body(name="Train"))
        assert problem == {
            "type": "string_pattern_mismatch",
            "loc": ["body", "name"],
            "msg": f"String should match pattern '{NAME_PATTERN}'",
            "input": "Train",
            "ctx": {"pattern": NAME_PATTERN},
        }

    @pytest.mark.parametrize("given", [None, 7, True, 1.5, "x" * 200])
    def test_small_inputs_are_told_back(self, client: TestClient, given: object) -> None:
        (problem,) = problems(client, body(spec=given))
        assert problem["input"] == given

    @pytest.mark.parametrize("given", [["x"], "x" * 201])
    def test_others_are_not(self, client: TestClient, given: object) -> None:
        (problem,) = problems(client, body(spec=given))
        assert "input" not in problem

    def test_nor_inside_of_words(self, client: TestClient) -> None:
        (problem,) = problems(client, body(step(executor={"provider": "x" * 100_000})))
        assert problem["type"] == "union_tag_invalid"
        assert len(json.dumps(problem)) < 2000

    def test_a_value_of_query_that_no_json_can_hold(self, client: TestClient) -> None:
        answer = client.get(JOBS, params={"sort": "a\0b"})
        assert answer.status_code == 422
        assert "input" not in answer.json()["detail"][0]

    def test_the_first_hundred(self, client: TestClient) -> None:
        steps = [step(name=f"S{number}", lifecycle=7) for number in range(80)]
        found = problems(client, body(*steps))
        assert len(found) == 101
        assert found[-1] == {"type": "too_many_problems", "loc": ["body"], "msg": "60 more problems are not told."}

    @pytest.mark.parametrize(
        "wrong",
        [
            step(environment=[{"nam": "A", "value": "1"}] * 150_000),
            step(environment=[{}] * 1_200_000),
            step(executor={"provider": "subprocess", "command": [1] * 1_500_000}),
            step(executor={"provider": "cpu", "container": {"entrypoint": [1] * 1_500_000}}),
            {},
        ],
        ids=["environment", "empty", "command", "entrypoint", "steps"],
    )
    def test_a_flood_ends_at_its_first_problem(self, client: TestClient, wrong: dict[str, Any]) -> None:
        content = json.dumps(body(*([wrong] if wrong else [{"name": 1}] * 300_000)))
        assert 3_000_000 < len(content) < MAX_BODY_BYTES
        answer = client.post(JOBS, content=content)
        # The reading ended at the first problem (0.3 to 0.6 s); all of them took 10 to 60, and a hundred were told.
        assert (answer.status_code, len(answer.json()["detail"])) == (422, 1)

    def test_a_body_is_looked_at_beside_the_loop(
        self, client: TestClient, created: Created, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Half a second for a large one is half a second for everybody else otherwise."""
        from nemo_airflow_provider.api import jobs

        threads: list[str] = []
        look = jobs.flaw_in
        monkeypatch.setattr(
            jobs, "flaw_in", lambda value: threads.append(threading.current_thread().name) or look(value)
        )
        assert client.post(JOBS, json=body()).status_code == 201
        assert threads == ["AnyIO worker thread"]
        assert created.names == ["job-1"]


class TestBodyLimit:
    def test_a_declared_length(self, client: TestClient, created: Created) -> None:
        answer = client.post(JOBS, content=b"x" * (MAX_BODY_BYTES + 1))
        assert (answer.status_code, answer.json()) == (413, {"detail": TOO_LONG})
        assert created.names == []

    def test_a_length_that_shows_while_it_comes(self, client: TestClient) -> None:
        answer = client.post(JOBS, content=(b" " * 2**20 for _ in range(9)))
        assert (answer.status_code, answer.json()) == (413, {"detail": TOO_LONG})

    def test_the_longest(self, client: TestClient, created: Created) -> None:
        content = json.dumps(body()).encode()
        answer = client.post(JOBS, content=content + b" " * (MAX_BODY_BYTES - len(content)))
        assert (answer.status_code, created.names) == (201, ["job-1"])

    @pytest.mark.parametrize(
        ("length", "status"), [("9" * 5000, 413), ("١" * 30, 201), ("-1", 201)], ids=["digits", "arabic", "negative"]
    )
    def test_a_length_that_is_none(self, client: TestClient, length: str, status: int) -> None:
        """One that no reader of numbers takes is told by what comes."""
        headers = {"content-length": length.encode()}
        answer = client.post(JOBS, content=json.dumps(body()), headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == status
