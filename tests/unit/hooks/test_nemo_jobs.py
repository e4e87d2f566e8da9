"""The hook: what a connection's fields mean, and what the test button says."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from airflow.models.connection import Connection
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from nemo_airflow_provider.hooks.nemo_jobs import NemoJobsHook, base_url_of
from nemo_airflow_provider.provider_info import get_provider_info
from nemo_airflow_provider.remote.trouble import RemoteTrouble
from tests.unit.cli.fake_server import Answer, FakeServer, detail
from tests.unit.cli.shapes import JOBS, PROFILES, job, page


def hook(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> NemoJobsHook:
    """A hook whose connection is in the environment, as Airflow's own code takes it from there."""
    monkeypatch.setenv("AIRFLOW_CONN_THERE", Connection(conn_type="nemo_jobs", **fields).as_json())
    return NemoJobsHook("there")


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "https://a.example"}, "https://a.example"),
        ({"host": "https://a.example:8443/airflow/"}, "https://a.example:8443/airflow"),
        ({"host": "http://127.0.0.1", "port": 8080}, "http://127.0.0.1:8080"),
        ({"host": "https://a.example/x", "port": 8080}, "https://a.example:8080/x"),
        ({"host": "a.example"}, "https://a.example"),
        ({"host": "127.0.0.1", "port": 8080, "schema": "airflow"}, "http://127.0.0.1:8080/airflow"),
        ({"host": "a.example", "schema": "http"}, "http://a.example"),
    ],
)
def test_the_base_url(fields: dict[str, Any], url: str) -> None:
    connection = Connection(conn_id="there", conn_type="nemo_jobs", **fields)
    assert base_url_of(connection, "there") == url
    # As Airflow's test button hands the connection on.
    again = Connection(conn_id="there", uri=connection.get_uri())
    assert base_url_of(again, "there") == url
    assert again.conn_type == "nemo_jobs"


def test_a_connection_without_a_server() -> None:
    with pytest.raises(RemoteTrouble, match=r"^Connection 'there' names no server: put its base URL into the field"):
        base_url_of(Connection(conn_id="there", conn_type="nemo_jobs"), "there")


def test_token_and_workspace_are_those_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer().running() as server:
        there = JOBS.replace("default", "research")
        server.on("GET", f"{there}/x", Answer(job("x")))
        with hook(monkeypatch, host=server.url, password="tok", extra='{"workspace": "research"}') as found:
            assert found.get("x")["name"] == "x"
            assert found.explain.__self__ is found
        assert server.seen[0].headers["authorization"] == "Bearer tok"


def test_a_user_of_the_other_airflow_gets_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer().running() as server:
        server.on("POST", "/auth/token/cli", Answer({"access_token": "fresh"}, 201))
        server.on("POST", f"{JOBS}/x/cancel", Answer(job("x")))
        with hook(monkeypatch, host=server.url, login="ann", password="secret") as found:
            found.cancel("x")
        assert server.seen[0].json() == {"username": "ann", "password": "secret"}
        assert server.seen[1].headers["authorization"] == "Bearer fresh"


@pytest.mark.parametrize(("seconds", "logins"), [(3600, 1), (30, 2)])
def test_a_token_is_used_as_long_as_it_is_good(monkeypatch: pytest.MonkeyPatch, seconds: int, logins: int) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + seconds}).encode()).decode().rstrip("=")
    with FakeServer().running() as server:
        server.on("POST", "/auth/token/cli", Answer({"access_token": f"e30.{claims}.sig"}, 201))
        with hook(monkeypatch, host=server.url, login="ann", password="secret") as found:
            found.open_client().close()
            found.open_client().close()
        assert len(server.seen) == logins


def test_every_line_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(seen: Any) -> Answer:
        number = int(seen.query.get("page_cursor", ["0"])[0])
        rows = [{"message": f"line {number * 2 + at}"} for at in range(2)]
        following = str(number + 1) if number < 2 else None
        return Answer({"data": rows, "total": 6, "next_page": following, "prev_page": None})

    with FakeServer().running() as server:
        server.on("GET", f"{JOBS}/x/logs", pages)
        with hook(monkeypatch, host=server.url) as found:
            assert [row["message"] for row in found.iter_logs("x", page_lines=2)] == [f"line {at}" for at in range(6)]
            assert len(found.tail("x", 2)) == 2
        assert server.seen[-1].query == {"tail": ["2"]}


def test_results(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer().running() as server:
        server.on("GET", f"{JOBS}/x/results", Answer({"data": [{"name": "m"}]}))
        server.on("GET", f"{JOBS}/x/results/m/download", Answer(b"\x00\xff", content_type="application/x-tar"))
        with hook(monkeypatch, host=server.url) as found:
            assert [row["name"] for row in found.results("x")] == ["m"]
            assert found.download_result("x", "m") == b"\x00\xff"


class TestButton:
    def test_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with FakeServer().running() as server:
            server.on("GET", PROFILES, Answer([{"provider": "cpu"}])).on("GET", JOBS, Answer(page()))
            assert hook(monkeypatch, host=server.url).test_connection() == (
                True,
                f"{server.url} is a jobs API with 1 execution profiles; workspace 'default' can be read.",
            )

    @pytest.mark.parametrize(
        ("fields", "answer", "text"),
        [
            ({}, detail(401, "Unauthorized"), "refuses its token"),
            ({}, detail(404, "Not Found"), "has no jobs API there"),
            ({}, Answer(b"<html>", content_type="text/html"), "is not a jobs API"),
            ({"host": ""}, None, "names no server"),
            ({"host": "ftp://x"}, None, "is not of the form"),
            ({"host": "http://127.0.0.1:9"}, None, "does not answer"),
            ({"host": "http://a.example", "password": "tok"}, None, "would travel unencrypted"),
        ],
    )
    def test_bad(
        self, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], answer: Answer | None, text: str
    ) -> None:
        with FakeServer().running() as server:
            if answer is not None:
                server.on("GET", PROFILES, answer)
            good, told = hook(monkeypatch, **{"host": server.url, **fields}).test_connection()
            assert not good
            assert text in told and "\n" not in told


def test_airflow_knows_the_connection_type() -> None:
    [declared] = get_provider_info()["connection-types"]
    assert declared["connection-type"] == NemoJobsHook.conn_type
    assert declared["hook-class-name"] == f"{NemoJobsHook.__module__}.{NemoJobsHook.__qualname__}"
    found = ProvidersManagerTaskRuntime().hooks["nemo_jobs"]
    assert found is not None and found.hook_name == NemoJobsHook.hook_name
    fields = set(ProvidersManager().connection_form_widgets)
    assert {"extra__nemo_jobs__workspace", "extra__nemo_jobs__certificate_authority"} <= fields
