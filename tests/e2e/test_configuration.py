"""The profiles file changes or breaks while jobs wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import JOBS, Job, Lab, python, step
from tests.stack.airflow import wait_until


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
    text = lab.profiles.read_text()
    place = broken(lab)
    for answer in (
        lab.http.get("/apis/jobs/v2/execution-profiles"),
        lab.create(lab.name("broken"), step("work", python("pass"))),
    ):
        assert answer.status_code == 503
        assert place in answer.json()["detail"]
        assert "executors" in answer.json()["detail"]
    assert waiting.get()["status"] == "pending"
    lab.open_gate(1)
    assert place in waiting.wait("error")["error_details"]["message"]
    assert "\n" not in waiting.get()["error_details"]["message"]
    lab.profiles.write_text(text)
    mended = lab.submit("mended", step("work", python("print('mended')")))
    mended.wait("completed")
    assert mended.messages() == ["mended"]


def test_a_broken_file_harms_nothing_that_needs_no_profile(lab: Lab, waiting: Job) -> None:
    done = lab.submit("before", step("work", python("print('before')")))
    done.wait("completed")
    broken(lab)
    # Jobs that are there can be seen, and ended.
    assert done.messages() == ["before"]
    assert [one["status"] for one in done.steps()] == ["completed"]
    assert done.name in [job["name"] for job in lab.http.get(JOBS, params={"page_size": 1000}).json()["data"]]
    assert waiting.cancel()["status"] in ("cancelling", "cancelled")
    waiting.wait("cancelled")
    assert lab.http.delete(done.url).status_code == 204
    # Airflow's own pages and API.
    for page in ("/", "/dags"):
        answer = lab.http.get(page, follow_redirects=True)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert lab.airflow("GET", "/monitor/health")["metadatabase"]["status"] == "healthy"
    assert lab.airflow("GET", "/dags", dag_id_pattern="nemo.")["dags"]
    assert {plugin["name"] for plugin in lab.airflow("GET", "/plugins")["plugins"]} >= {"nemo"}


def test_a_broken_file_is_no_import_error(lab: Lab, waiting: Job) -> None:
    """The dag-processor reads our file while the configuration is broken, and keeps its DAGs."""
    dag_id = waiting.run_path.split("/")[2]
    broken(lab)
    token = lab.airflow("GET", f"/dags/{dag_id}/details")["file_token"]
    before = parsed_at(lab, dag_id)
    assert lab.http.put(f"/api/v2/parseDagFile/{token}").is_success
    wait_until(lambda: parsed_at(lab, dag_id) != before, 120, f"a parse of {dag_id}")
    assert lab.airflow("GET", "/importErrors")["import_errors"] == []
    assert not lab.airflow("GET", f"/dags/{dag_id}")["is_stale"]


def broken(lab: Lab) -> str:
    """Spoil the profiles file; where."""
    lines = lab.profiles.read_text().splitlines()
    lab.profiles.write_text("\n".join([*lines, "  executor: []", ""]))
    return f"{lab.profiles}:{len(lines) + 1}"


def parsed_at(lab: Lab, dag_id: str) -> str:
    """When the dag-processor last read the DAG's file."""
    return str(lab.airflow("GET", f"/dags/{dag_id}")["last_parsed_time"])
