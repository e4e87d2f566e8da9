"""The profiles file changes or breaks while jobs wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import Job, Lab, python, step


@pytest.fixture
def waiting(lab: Lab) -> Iterator[Job]:
    """A job that waits at the gate; the profiles file is as before afterwards."""
    text = lab.profiles.read_text()
    job = lab.submit("config", step("work", python("print('ran')"), "gated"))
    job.wait("pending")
    yield job
    lab.profiles.write_text(text)
    lab.open_gate(0)


def test_a_profile_that_is_gone_when_the_step_starts(lab: Lab, waiting: Job) -> None:
    text = lab.profiles.read_text()
    lab.profiles.write_text(text.replace("profile: gated", "profile: other"))
    lab.open_gate(1)
    ended = waiting.wait("error")
    assert ended["error_details"]["message"] == "No backend found for provider 'subprocess' and profile 'gated'"
    [work] = waiting.steps()
    assert work["tasks"] == []
    refused = lab.create(lab.name("gone"), step("work", python("pass"), "gated"))
    assert refused.status_code == 422
    assert "'subprocess/gated'" in refused.json()["detail"]


def test_a_broken_file(lab: Lab, waiting: Job) -> None:
    lines = lab.profiles.read_text().splitlines()
    lab.profiles.write_text("\n".join([*lines, "  executor: []", ""]))
    place = f"{lab.profiles}:{len(lines) + 1}"
    for answer in (
        lab.http.get("/apis/jobs/v2/execution-profiles"),
        lab.create(lab.name("broken"), step("work", python("pass"))),
    ):
        assert answer.status_code == 503
        assert place in answer.json()["detail"]
        assert "executors" in answer.json()["detail"]
    assert waiting.get()["status"] == "pending"
    assert lab.airflow("GET", "/monitor/health")["metadatabase"]["status"] == "healthy"
    assert lab.airflow("GET", "/dags", dag_id_pattern="nemo.")["dags"]
    assert lab.airflow("GET", "/importErrors")["import_errors"] == []
    lab.open_gate(1)
    assert place in waiting.wait("error")["error_details"]["message"]
    assert "\n" not in waiting.get()["error_details"]["message"]
