"""Answers of the wrong types: every one ends in an error of ours, none in an exception of Python's."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from nemo_airflow_provider.client import (
    ApiError,
    BadAnswer,
    ClientError,
    JobEnded,
    JobsClient,
    LogEnd,
    Watch,
    WatchTimeout,
    WholeLog,
)
from nemo_airflow_provider.client import answer as answers
from nemo_airflow_provider.client.auth import expiry
from nemo_airflow_provider.client.errors import describe
from nemo_airflow_provider.client.transport import Transport
from tests.unit.cli.fake_server import Answer, FakeServer, detail
from tests.unit.cli.shapes import JOBS, job, line, logs, page, status, step, task

WRONG = [None, True, -1, 0, 7, 1.5, 10**4000, "", "x", "\ud800", [], [1], [None], [[]], {}, {"a": 1}]


class Scripted(Transport):
    """Answers from a list, the last one for ever; a server that never stops stops here."""

    def __init__(self, *bodies: Any) -> None:
        super().__init__()
        self._bodies = list(bodies)
        self.requests = 0

    def request(self, method: str, path: str, **_: Any) -> Any:
        self.requests += 1
        assert self.requests < 50, "it asks for ever"
        return self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]


def lines_of(source: WholeLog | LogEnd) -> None:
    for _ in range(2):
        for rows in source.drain():
            assert all(isinstance(row, dict) for row in rows)


def watched(client: JobsClient) -> None:
    now = iter(range(1000))
    watch = Watch(client, "x", timeout_seconds=20, clock=lambda: float(next(now)), sleep=lambda seconds: None)
    with contextlib.suppress(WatchTimeout):
        assert isinstance(list(watch.events())[-1], JobEnded)


CALLS: dict[str, tuple[Callable[[JobsClient], object], Any]] = {
    "profiles": (lambda client: client.list_execution_profiles(), [{"provider": "a", "profile": "b"}]),
    "create": (lambda client: client.create_job({}), job()),
    "list": (lambda client: client.list_jobs(), page(job())),
    "get": (lambda client: client.get_job("x"), job()),
    "status": (lambda client: client.get_job_status("x"), status()),
    "cancel": (lambda client: client.cancel_job("x"), job()),
    "delete": (lambda client: client.delete_job("x"), None),
    "logs": (lambda client: client.get_logs("x"), logs(line("m"), total=3)),
    "log pages": (lambda client: list(client.log_pages("x")), logs(line("m"), next_page="n")),
    "steps": (lambda client: client.list_steps("x"), page(step())),
    "step": (lambda client: client.get_step("x", "y"), step()),
    "tasks": (lambda client: client.list_tasks("x", "y"), {"data": [task()]}),
    "task": (lambda client: client.get_task("x", "y", "z"), task()),
    "whole log": (lambda client: lines_of(WholeLog(client, "x")), logs(line("m"), total=1, next_page="n")),
    "log end": (lambda client: lines_of(LogEnd(client, "x", lines=5)), logs(line("m"), total=9, prev_page="p")),
    "watch": (watched, status()),
}


def spoilt(shape: Any) -> Iterator[Any]:
    """The shape with one part of it replaced or left out, two levels deep."""
    yield from WRONG
    keys: list[Any] = list(shape) if isinstance(shape, dict) else list(range(len(shape or [])))
    for key in keys:
        for value in WRONG:
            other = copy.copy(shape)
            other[key] = value
            yield other
        without = copy.copy(shape)
        del without[key]
        yield without
        if isinstance(shape[key], dict | list) and shape[key]:
            for inner in spoilt(shape[key]):
                other = copy.copy(shape)
                other[key] = inner
                yield other


@pytest.mark.parametrize("name", CALLS)
def test_answers_of_the_wrong_type(name: str) -> None:
    call, shape = CALLS[name]
    for body in [shape, *spoilt(shape)]:
        client = JobsClient(transport=Scripted(shape, body) if name in ("whole log", "log end") else Scripted(body))
        with client, contextlib.suppress(ClientError):
            call(client)


@pytest.mark.parametrize(
    ("call", "rows", "changes"),
    [
        ("log pages", 1, {"next_page": "n"}),
        ("log pages", 0, {"next_page": "n"}),
        ("whole log", 0, {"next_page": "n"}),
        ("log end", 0, {"prev_page": "p", "total": 10**9}),
    ],
)
def test_a_page_that_leads_to_itself(call: str, rows: int, changes: dict[str, Any]) -> None:
    with (
        JobsClient(transport=Scripted(logs(*[line("m")] * rows, **changes))) as client,
        pytest.raises(BadAnswer, match="leads to itself"),
    ):
        CALLS[call][0](client)


@pytest.mark.parametrize("total", [0, 1])
def test_a_log_whose_total_is_less_than_its_lines(total: int) -> None:
    first, last = logs(line("m"), total=total, next_page="n"), logs(line("n"), total=total)
    with JobsClient(transport=Scripted(first, last, first, last)) as client:
        given = [row["message"] for rows in WholeLog(client, "x").drain() for row in rows]
    assert given == ["m", "n"]


def test_a_server_that_refuses_its_own_cursors() -> None:
    with FakeServer().running() as server:
        refused = detail(422, "Invalid page cursor")
        page_one = Answer(logs(line("m"), next_page="n"))
        server.on("GET", f"{JOBS}/x/logs", page_one, refused, page_one, refused)
        with JobsClient(server.url) as client, pytest.raises(ApiError, match="Invalid page cursor"):
            lines_of(WholeLog(client, "x"))
        assert len(server.seen) == 4


@pytest.mark.parametrize(
    "changes",
    [{"total": "x"}, {"total": []}, {"next_page": 5}, {"next_page": ["a"]}, {"prev_page": {}}, {"next_page": "\ud800"}],
)
def test_a_log_page_that_does_not_fit(changes: dict[str, Any]) -> None:
    with (
        JobsClient(transport=Scripted({**logs(line("m")), **changes})) as client,
        pytest.raises(BadAnswer, match="is not a page of a log"),
    ):
        client.get_logs("x")


json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.sampled_from(["msg", "loc", "detail", "x"]), inner),
    max_leaves=8,
)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_any_detail_is_described(detail: Any) -> None:
    assert isinstance(describe(detail), str)
    assert str(ApiError(422, detail, method="GET", url="http://x"))


@pytest.mark.parametrize("location", [5, "body", None, {"a": 1}, [], [[1]], True])
def test_a_problem_without_a_proper_place(location: Any) -> None:
    assert describe([{"msg": "no", "loc": location}]).endswith("no")


def refusal(content: bytes, **headers: str) -> ApiError:
    request = httpx.Request("GET", "http://x/y")
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return answers.refusal(httpx.Response(422, headers=sent, request=request), content)


HTTP_DATE = some.from_regex(
    r"(Mon|Fri), [0-9]{1,3} (Jan|Dec) [0-9]{1,12} [0-9]{2}:[0-9]{2}:[0-9]{2}( [+-][0-9]{4,9})?", fullmatch=True
)


@given(some.text(some.characters(min_codepoint=32, max_codepoint=126)) | HTTP_DATE | some.floats().map(str))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("header", ["retry_after", "retry_after_ms"])
def test_any_retry_header(header: str, value: str) -> None:
    seconds = refusal(b"", **{header: value}).retry_after_seconds
    assert seconds is None or 0 <= seconds <= 60


@pytest.mark.parametrize("value", ["Fri, 31 Dec 9999 23:59:59 -0000", "Mon, 01 Jan 0001 00:00:00 +1400", "9" * 5000])
def test_a_retry_header_at_the_ends_of_time(value: str) -> None:
    assert refusal(b"", retry_after=value).retry_after_seconds is None


@pytest.mark.parametrize("depth", [200, 900, 100_000])
@pytest.mark.parametrize("around", ['{"name": "x", "spec": %s}', '{"detail": %s}'])
def test_nesting_that_printing_could_not_follow(depth: int, around: str) -> None:
    content = (around % ("[" * depth + "]" * depth)).encode()
    assert refusal(content).text == ""
    request = httpx.Request("GET", "http://x/y")
    with pytest.raises(BadAnswer, match="^the answer is nested too deeply$"):
        answers.parsed(httpx.Response(200, request=request), content)


def test_nesting_as_deep_as_a_job_may_have() -> None:
    content = json.dumps({"data": [{"spec": json.loads("[" * 100 + "]" * 100)}]}).encode()
    request = httpx.Request("GET", "http://x/y")
    assert answers.parsed(httpx.Response(200, request=request), content)["data"]


@pytest.mark.parametrize("claim", [10**400, "1e999", "nan", -1, 1e300, "x", [], {}, None])
def test_a_token_that_ends_at_no_time(claim: Any) -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": claim}).encode()).decode().rstrip("=")
    assert expiry(f"a.{payload}.c") is None


def test_a_token_that_is_nested_too_deeply() -> None:
    assert expiry(f"a.{base64.urlsafe_b64encode(b'[' * 3000).decode()}.c") is None
