"""Jobs and Airflow's own door: DAGs of shapes triggered directly, and an Airflow that reads no DAG files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from nemo_airflow_provider.model import names
from tests.stack import AirflowStack
from tests.stack.airflow import stopped, wait_until
from tests.wire.jobs import Jobs, answered, body, fresh, refused, step

SHAPE = [("one", "subprocess", "default")]
DAG = names.shape_dag_id("default", SHAPE)


@pytest.fixture(scope="module")
def shape(jobs: Jobs) -> str:
    """DAG id of one-step jobs, which exists."""
    jobs.create(fresh(), "true")
    return DAG


def trigger(http: httpx.Client, dag_id: str, run_id: str, conf: dict[str, Any]) -> str:
    answer = http.post(
        f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "dag_run_id": run_id, "conf": conf}
    )
    assert answer.status_code == 200, answer.text
    return run_id


def run_state(http: httpx.Client, dag_id: str, run_id: str) -> str:
    return str(answered(http.get(f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"))["state"])


def task_log(http: httpx.Client, dag_id: str, run_id: str) -> str:
    path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/one/logs/1"
    return json.dumps(http.get(path, headers={"accept": "application/json"}).json())


def valid(**change: Any) -> dict[str, Any]:
    return body(None, "echo never") | change


class TestTheOtherDoor:
    @pytest.mark.parametrize(
        ("run_id", "conf", "words"),
        [
            ("by-hand", {}, "conf is not a valid job"),
            ("by-hand", {"platform_spec": {"steps": []}, "source": "x", "spec": {}}, "At least one step"),
            ("by-hand", valid(source=7), "conf is not a valid job"),
            ("NotAName", valid(), "is not a job name"),
        ],
    )
    def test_a_run_that_is_no_job_fails_and_is_not_listed(
        self, jobs: Jobs, shape: str, run_id: str, conf: dict[str, Any], words: str
    ) -> None:
        name = trigger(jobs.http, shape, f"{run_id}{fresh('.')}", conf)
        wait_until(lambda: run_state(jobs.http, shape, name) == "failed", 60, "the run to fail")
        assert words in task_log(jobs.http, shape, name)
        refused(jobs.get(name), 404)
        assert refused(jobs.get(name, "logs"), 404)
        page = jobs.list(page_size=1000)
        assert name not in {row["name"] for row in page["data"]}
        assert page["pagination"]["total_results"] == len(page["data"])

    def test_a_job_of_another_shape_fails_with_our_words(self, jobs: Jobs, shape: str) -> None:
        other = valid(platform_spec={"steps": [step("two", "echo never")]})
        name = trigger(jobs.http, shape, fresh("shape"), other)
        wait_until(lambda: run_state(jobs.http, shape, name) == "failed", 60, "the run to fail")
        assert "does not describe the steps of this DAG" in task_log(jobs.http, shape, name)
        page = jobs.list(page_size=1000)
        assert name not in {row["name"] for row in page["data"]}
        refused(jobs.get(name), 404)

    def test_a_valid_job_by_this_door_is_a_job(self, jobs: Jobs, shape: str) -> None:
        name = trigger(jobs.http, shape, fresh("direct"), valid())
        jobs.wait(name, "completed")
        assert jobs.lines(name) == ["never"]
        assert refused(jobs.post(body(name, "true", "true")), 409).startswith(f"Job '{name}' already exists")

    def test_a_name_stays_with_its_job(self, jobs: Jobs, shape: str) -> None:
        """Whatever somebody makes here under it, in another shape's DAG or with an ordinal."""
        name = fresh("held")
        jobs.run(fresh(), "true", "true")
        other = names.shape_dag_id("default", [*SHAPE, ("two", "subprocess", "default")])
        job = jobs.create(name, "sleep 5; echo mine")
        trigger(jobs.http, other, name, body(None, "echo theirs", "true"))
        trigger(jobs.http, shape, f"{name}~999999999", body(None, "echo theirs"))
        assert jobs.job(name)["id"] == job["id"]
        listed = jobs.list(filter=json.dumps({"name": name}), sort="created_at")["data"]
        assert listed[0]["id"] == job["id"]
        asked = {"filter[job]": ",".join([name, *(f"none-{number}" for number in range(50))])}
        steps = answered(jobs.http.get(jobs.url("-", "steps"), params=asked))["data"]
        assert {row["attempt_id"] for row in steps} == {job["attempt_id"]}
        for row in listed:
            jobs.wait(row["id"], "completed")
        assert jobs.lines(name) == ["mine"]
        assert [jobs.lines(row["id"]) for row in listed] == [["mine"], ["theirs"], ["theirs"]]
        for row in listed:
            jobs.delete(row["id"])
        again = jobs.create(name, "true")
        assert jobs.wait(name, "completed")["id"] == again["id"]

    def test_a_name_of_a_run_that_is_no_job_is_not_free(self, jobs: Jobs, shape: str) -> None:
        name = trigger(jobs.http, shape, fresh("squat"), {})
        assert refused(jobs.post(body(name, "true")), 409)


class TestADeadDagProcessor:
    @pytest.fixture
    def no_dag_processor(self, sqlite_stack: AirflowStack) -> Iterator[None]:
        with stopped(sqlite_stack.server.components["dag-processor"]):
            yield

    def test_a_new_shape_is_503_and_leaves_the_name_free(
        self, jobs: Jobs, sqlite_stack: AirflowStack, no_dag_processor: None
    ) -> None:
        name = fresh("blocked")
        unseen = {"steps": [step(fresh("unseen"), "echo at last")]}
        jobs.http.timeout = httpx.Timeout(60)
        text = refused(jobs.post(body(name, platform_spec=unseen)), 503)
        assert "within 30 s. Is the dag-processor running? Nothing was created; try again." in text
        refused(jobs.get(name), 404)
        jobs.create(name, "echo known shape")
        jobs.wait(name, "completed")
        jobs.delete(name)

    def test_the_same_job_runs_once_it_is_back(self, jobs: Jobs) -> None:
        name = fresh("unblocked")
        unseen = {"steps": [step(fresh("unseen"), "echo at last")]}
        jobs.create(name, platform_spec=unseen)
        jobs.wait(name, "completed")
        assert jobs.lines(name) == ["at last"]
