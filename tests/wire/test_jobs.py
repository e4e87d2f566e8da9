"""Endpoints 2 to 8 and 14 to 19 over plain HTTP: statuses, error bodies, and the objects themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.stack.airflow import wait_until
from tests.wire.jobs import API, LONG, Jobs, answered, body, fresh, refused, step

JOB_KEYS = [
    "id",
    "attempt_id",
    "name",
    "workspace",
    "project",
    "description",
    "source",
    "spec",
    "platform_spec",
    "fileset",
    "output_location",
    "status",
    "status_details",
    "error_details",
    "created_at",
    "updated_at",
    "ownership",
    "custom_fields",
]
STATUS_KEYS = ["id", "name", "status", "status_details", "error_details", "steps", "created_at", "updated_at"]
ENTITY_KEYS = {"id", "created_at", "created_by", "updated_at", "updated_by", "entity_id", "parent", "db_version"}


@pytest.fixture(scope="module")
def ended(jobs: Jobs) -> str:
    """A job of two steps that has completed."""
    name = fresh("ended")
    jobs.create(name, "echo hello; echo oops >&2", "echo again", description="two steps", ownership={"team": "wire"})
    jobs.wait(name, "completed")
    return name


@pytest.fixture(scope="module")
def failed(jobs: Jobs) -> str:
    """A job whose second step has failed."""
    name = fresh("failed")
    jobs.create(name, "true", "echo broken; exit 7", "true")
    jobs.wait(name, "error")
    return name


def moments(value: Any) -> Iterator[str]:
    """Every timestamp anywhere in an answer."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "timestamp" or key.endswith("_at"):
                yield item
            yield from moments(item)
    elif isinstance(value, list):
        for item in value:
            yield from moments(item)


class TestObjects:
    def test_create_answers_the_created_job(self, jobs: Jobs) -> None:
        name = fresh()
        job = jobs.create(name, "true", project="p1", custom_fields={"a": 1}, spec={"deep": {"x": [1]}})
        assert list(job) == JOB_KEYS
        assert (job["name"], job["workspace"], job["status"]) == (name, "default", "created")
        assert (job["source"], job["project"], job["spec"]) == ("wire", "p1", {"deep": {"x": [1]}})
        assert job["custom_fields"] == {"a": 1} and job["description"] is None and job["error_details"] is None
        assert job["fileset"] == f"job-fileset-{name}"
        assert re.fullmatch(r"platform-job-[1-9A-HJ-NP-Za-km-z]+", job["id"])
        assert job["attempt_id"].startswith("platform-job-attempt-")
        assert job["platform_spec"] == {
            "secrets": None,
            "steps": [
                {
                    "name": "one",
                    "environment": None,
                    "executor": {
                        "provider": "subprocess",
                        "profile": "default",
                        "command": ["sh", "-c", "true"],
                    },
                    "config": {},
                    "lifecycle": {"staleness_timeout_seconds": 0},
                }
            ],
        }

    def test_a_name_is_made_from_the_source(self, jobs: Jobs) -> None:
        job = jobs.create(None, "true", source="42 My Training_Set!")
        assert re.fullmatch(r"my-training_set-[a-z0-9]{8}", job["name"])
        assert jobs.job(job["name"])["id"] == job["id"]

    def test_status_shows_steps_and_tasks(self, jobs: Jobs, ended: str) -> None:
        status = jobs.status(ended)
        assert list(status) == STATUS_KEYS
        assert status["status"] == "completed" and status["error_details"] is None
        assert status["status_details"]["exit_code"] == 0
        assert status["status_details"]["message"] == "Job completed successfully with exit code 0"
        assert [item["name"] for item in status["steps"]] == ["one", "two"]
        for item in status["steps"]:
            assert (item["status"], item["error_details"]) == ("completed", {})
            (task,) = item["tasks"]
            assert re.fullmatch(r"task-[0-9a-f]{12}", task["name"])
            assert (task["status"], task["error_details"], task["error_stack"]) == ("completed", {}, None)

    def test_a_failed_step_is_told_everywhere(self, jobs: Jobs, failed: str) -> None:
        status = jobs.status(failed)
        assert [(item["name"], item["status"]) for item in status["steps"]] == [
            ("one", "completed"),
            ("two", "error"),
        ]
        assert status["error_details"]["message"] == "Job exited with code 7"
        assert jobs.job(failed)["error_details"]["message"] == "Job exited with code 7"
        task = status["steps"][1]["tasks"][0]
        assert task["status"] == "error" and "broken" in task["error_stack"]
        assert refused(jobs.get(failed, "steps", "three"), 404) == (
            f"Step 'three' for job '{failed}' not found in workspace 'default'."
        )

    def test_steps_and_tasks_one_by_one(self, jobs: Jobs, ended: str) -> None:
        job = jobs.job(ended)
        page = answered(jobs.get(ended, "steps"))
        assert page["filter"] == {"job": ended} and page["sort"] == "created_at"
        assert page["pagination"]["page_size"] == 25 and page["pagination"]["total_results"] == 2
        listed = page["data"][0]
        assert (listed["job"], listed["name"], listed["workspace"]) == (ended, "one", "default")
        assert listed["attempt_id"] == job["attempt_id"] and listed["fileset"] == job["fileset"]
        single = answered(jobs.get(ended, "steps", "one"))
        assert set(single) > ENTITY_KEYS and single["config"] == {"_step_spec_name": "one"}
        assert single["id"] == single["entity_id"] == listed["id"]
        assert single["parent"] == single["attempt_id"] == job["attempt_id"]
        (task,) = answered(jobs.get(ended, "steps", "one", "tasks"))["data"]
        assert set(task) > ENTITY_KEYS and task["step_id"] == task["parent"] == single["id"]
        assert answered(jobs.get(ended, "steps", "one", "tasks", task["name"])) == task

    def test_the_steps_list_pages_and_filters(self, jobs: Jobs, ended: str) -> None:
        second = answered(jobs.get(ended, "steps", page=2, page_size=1, sort="-created_at"))
        assert [item["name"] for item in second["data"]] == ["one"]
        assert second["pagination"]["total_pages"] == 2
        narrowed = jobs.http.get(
            jobs.url("-", "steps"), params={"filter[job]": ended, "filter[status]": "completed,error"}
        )
        assert [item["name"] for item in answered(narrowed)["data"]] == ["one", "two"]
        twice = jobs.http.get(jobs.url(ended, "steps"), params={"filter[status]": ["completed", "error"]})
        assert [item["name"] for item in answered(twice)["data"]] == ["one", "two"]
        for pending, count in (("true", 0), ("false", 2)):
            page = jobs.http.get(jobs.url(ended, "steps"), params={"filter[task_cleanup_pending]": pending})
            assert answered(page)["pagination"]["total_results"] == count
        assert answered(jobs.get("no-such-job", "steps"))["data"] == []
        for bad in ({"filter[status]": "bogus"}, {"filter[bogus]": "x"}, {"filter[task_cleanup_pending]": "maybe"}):
            text = refused(jobs.http.get(jobs.url("-", "steps"), params=bad), 422)
            assert text.startswith("The request contains invalid values. filter.")

    def test_a4_ids_stand_for_names_everywhere(self, jobs: Jobs, ended: str) -> None:
        job = jobs.job(ended)
        step_id = answered(jobs.get(ended, "steps", "two"))["id"]
        task = answered(jobs.get(ended, "steps", "two", "tasks"))["data"][0]
        assert jobs.job(job["id"]) == job
        assert jobs.status(job["id"]) == jobs.status(ended)
        assert jobs.log(job["id"])["data"] == jobs.log(ended)["data"] != []
        assert jobs.lines(ended, step_id=step_id) == ["again"]
        assert jobs.lines(ended, task_id=task["id"]) == ["again"]
        assert [item["name"] for item in answered(jobs.get(job["id"], "steps"))["data"]] == ["one", "two"]
        assert answered(jobs.get(job["id"], "steps", step_id))["name"] == "two"
        assert answered(jobs.get(job["id"], "steps", step_id, "tasks", task["id"])) == task
        assert jobs.cancel(job["id"])["status"] == "completed"

    def test_a13_every_timestamp_has_microseconds_and_a_zone(self, jobs: Jobs, ended: str) -> None:
        task = jobs.status(ended)["steps"][0]["tasks"][0]["name"]
        answers = [
            jobs.job(ended),
            jobs.status(ended),
            jobs.log(ended),
            jobs.list(page_size=3),
            *(
                answered(jobs.get(ended, "steps", *rest))
                for rest in ((), ("one",), ("one", "tasks"), ("one", "tasks", task))
            ),
        ]
        for answer in answers:
            found = list(moments(answer))
            assert found
            for moment in found:
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", moment)
        created = datetime.fromisoformat(jobs.job(ended)["created_at"])
        written = datetime.fromisoformat(jobs.log(ended)["data"][0]["timestamp"])
        assert timedelta() < written - created < timedelta(minutes=2), "log times are in the same zone"

    def test_a7_updated_at_moves_with_the_status(self, jobs: Jobs) -> None:
        name = fresh()
        before = jobs.create(name, "true")["updated_at"]
        jobs.wait(name, "completed")
        assert jobs.job(name)["updated_at"] > before

    def test_a16_unknown_keys_are_named_in_a_warning(self, jobs: Jobs) -> None:
        content = body(fresh(), "true", descripton="typo")
        content["platform_spec"]["steps"][0]["lifecycle"] = {"stalenes_timeout_seconds": 3}
        job = answered(jobs.post(content), 201)
        assert job["status_details"]["warnings"] == [
            "Unknown keys were ignored: descripton, platform_spec.steps.0.lifecycle.stalenes_timeout_seconds"
        ]
        warnings = jobs.wait(job["name"], "completed")["status_details"]["warnings"]
        assert warnings == job["status_details"]["warnings"]


class TestOddContents:
    def test_the_largest_numbers_come_back(self, jobs: Jobs) -> None:
        numbers = {"most": 2**64 - 1, "least": -(2**63), "float": 1e18, "small": 1e-300}
        name = fresh()
        steps = [step("one", 'cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"', config=numbers)]
        jobs.create(name, spec=numbers, platform_spec={"steps": steps})
        jobs.wait(name, "completed")
        assert json.loads("".join(jobs.lines(name))) == jobs.job(name)["spec"] == numbers

    def test_a_nul_in_the_last_output_of_a_failed_job(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.create(name, r"printf 'a\0b\n'; exit 3")
        status = jobs.wait(name, "error")
        assert status["error_details"]["exit_code"] == 3
        (task,) = status["steps"][0]["tasks"]
        assert (task["error_stack"], jobs.lines(name)) == ("a\ufffdb", ["a\0b"])


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "place", "words"),
        [
            ({"name": "Bad_Name"}, ["body", "name"], "pattern"),
            ({"name": "line-end\n"}, ["body", "name"], "pattern"),
            (
                {"platform_spec": {"steps": [step("one\n", "true")]}},
                ["body", "platform_spec", "steps", 0, "name"],
                "pattern",
            ),
            (
                {"platform_spec": {"steps": [step(f"step-{number}", "true") for number in range(101)]}},
                ["body", "platform_spec", "steps"],
                "A job has at most 100 steps, and this one has 101.",
            ),
            ({"name": "a" * 52}, ["body"], "name must be at most 51 characters"),
            ({"spec": None}, ["body", "spec"], "dictionary"),
            ({"platform_spec": {"steps": []}}, ["body", "platform_spec"], "At least one step is required"),
            (
                {"platform_spec": {"steps": [step("one", "true"), step("one", "true")]}},
                ["body", "platform_spec"],
                "Each step must have a unique name.",
            ),
            ({"output_location": "a/b"}, ["body", "output_location"], "must be a bare fileset name"),
        ],
    )
    def test_a_body_that_does_not_fit_is_a_list(
        self, jobs: Jobs, change: dict[str, Any], place: list[str | int], words: str
    ) -> None:
        (problem,) = refused(jobs.post(body(fresh(), "true") | change), 422)
        assert problem["loc"] == place and words in problem["msg"]

    def test_what_is_no_body_is_a_list(self, jobs: Jobs) -> None:
        for content in ({}, [], "text"):
            assert isinstance(refused(jobs.post(content), 422), list)
        broken = jobs.http.post(jobs.url(), content="{", headers={"content-type": "application/json"})
        assert isinstance(refused(broken, 422), list)

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            (r'{"a": "\u0000"}', "'spec.a' holds the character NUL"),
            (r'{"a": "\ud800"}', "'spec.a' holds half of a surrogate pair"),
            ('{"a": NaN}', "'spec.a' holds the number nan"),
            ('{"a": 1e300}', "'spec.a' holds a number outside -2^63 to 2^64-1"),
            ('{"a": 18446744073709551616}', "'spec.a' holds a number outside -2^63 to 2^64-1"),
            ('{"a": ' * 300 + "1" + "}" * 300, "it is nested more than 100 levels deep"),
        ],
    )
    def test_what_cannot_be_stored(self, jobs: Jobs, spec: str, words: str) -> None:
        content = json.dumps(body(fresh(), "true") | {"spec": 0}).replace('"spec": 0', f'"spec": {spec}')
        headers = {"content-type": "application/json"}
        answer = jobs.http.post(jobs.url(), content=content, headers=headers)
        assert refused(answer, 422).startswith(f"The request body cannot be stored: {words}")
        listed = jobs.http.post(jobs.url(), content=f"[{spec}]", headers=headers)
        assert isinstance(refused(listed, 422), list), "what is told of the input can be shown"

    def test_a_body_that_is_too_long(self, jobs: Jobs) -> None:
        piece = b" " * 2**20
        for content in (piece * 9, (piece for _ in range(9))):
            answer = jobs.http.post(jobs.url(), content=content, headers={"content-type": "application/json"})
            assert refused(answer, 413).startswith("The request body is longer than 8 MiB, the most that is taken.")

    def test_a_job_that_cannot_run_is_a_sentence(self, jobs: Jobs) -> None:
        gpu = {"name": "aa", "executor": {"provider": "gpu", "profile": "x", "container": {}}}
        unknown = jobs.post(body(fresh(), platform_spec={"steps": [gpu]}))
        assert refused(unknown, 422) == "The execution profile 'gpu/x' specified in step 'aa' does not exist."
        somewhere = jobs.post(body(fresh(), "true", output_location="nowhere"))
        assert refused(somewhere, 422) == "fileset 'nowhere' not found or not accessible in workspace 'default'"

    def test_an_unknown_secret_is_a_conflict(self, jobs: Jobs) -> None:
        secret = step("one", "true", environment=[{"name": "TOKEN", "from_secret": {"name": "none"}}])
        text = refused(jobs.post(body(fresh(), platform_spec={"steps": [secret]})), 409)
        assert text.startswith("Unable to create job because one or more referenced secrets were not found")

    def test_a_taken_name(self, jobs: Jobs, ended: str) -> None:
        assert refused(jobs.post(body(ended, "true")), 409) == (
            f"Job '{ended}' already exists in workspace 'default'. Choose a different job name or delete the "
            "existing job before creating a new one."
        )

    def test_of_many_that_want_one_name_one_gets_it(self, jobs: Jobs) -> None:
        name = fresh()
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(jobs.post, [body(name, "true"), body(name, "true", "true")] * 3))
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
        for answer in answers:
            if answer.status_code == 409:
                refused(answer, 409)

    def test_what_is_not_there(self, jobs: Jobs, ended: str) -> None:
        missing = "Job 'nope' not found in workspace 'default'."
        for parts in (("nope",), ("nope", "status"), ("nope", "logs"), ("nope", "steps", "one")):
            assert refused(jobs.get(*parts), 404) == missing
        assert refused(jobs.http.delete(jobs.url("nope")), 404) == missing
        assert refused(jobs.http.post(jobs.url("nope", "cancel")), 404) == missing
        assert refused(jobs.get("platform-job-3x"), 404).startswith("Job 'platform-job-3x' not found")
        assert refused(jobs.get(ended, "steps", "one", "tasks", "task-0"), 404) == (
            f"Task 'task-0' for step 'one' of job '{ended}' not found in workspace 'default'."
        )

    def test_an_unknown_workspace(self, http: httpx.Client) -> None:
        elsewhere = Jobs(http, "elsewhere")
        assert refused(elsewhere.get(), 404) == "Workspace 'elsewhere' not found"
        assert refused(elsewhere.get("x"), 404) == "Workspace 'elsewhere' not found"
        assert refused(elsewhere.post(body(fresh(), "true")), 422) == (
            "Workspace 'elsewhere' does not exist. Please create the workspace first."
        )

    @pytest.mark.parametrize("path", ["/", "/v2", "/v2/nope", "/v1/execution-profiles", "/v2/workspaces"])
    def test_nothing_below_the_prefix_is_a_web_page(self, http: httpx.Client, path: str) -> None:
        assert refused(http.get(f"/apis/jobs{path}"), 404) == "Not Found"

    def test_another_method(self, http: httpx.Client, jobs: Jobs) -> None:
        for method, path in (("PUT", jobs.url()), ("DELETE", f"{API}/execution-profiles")):
            assert refused(http.request(method, path), 405) == "Method Not Allowed"

    def test_a_repeated_slash_is_no_job(self, http: httpx.Client, jobs: Jobs) -> None:
        assert refused(http.get(f"{jobs.url()}//status"), 404)

    def test_identity_headers_of_upstream_are_nothing(self, jobs: Jobs) -> None:
        headers = {"X-NHX-Principal-Id": "service:jobs", "X-NHX-Principal-On-Behalf-Of": "root"}
        name = fresh()
        answered(jobs.http.post(jobs.url(), json=body(name, "true"), headers=headers), 201)
        jobs.wait(name, "completed")
        assert answered(jobs.get(name, "steps", "one"))["created_by"] == "Anonymous"


class TestCancelAndDelete:
    def test_a_running_job_is_cancelled_then_deleted(self, jobs: Jobs) -> None:
        name = fresh()
        jobs.create(name, LONG, "true")
        jobs.wait_for_lines(name, 1)
        text = refused(jobs.http.delete(jobs.url(name)), 409)
        assert text == (
            f"Cannot delete job '{name}' while it is 'active'. Cancel the job and wait for it to reach a "
            "terminal state before deleting."
        )
        assert jobs.cancel(name)["status"] == "cancelling"
        assert jobs.cancel(name)["status"] in ("cancelling", "cancelled")
        status = jobs.wait(name, "cancelled")
        assert jobs.lines(name) == ["begun", "stopping"]
        assert status["error_details"] is None and status["steps"][0]["error_details"] == {}
        assert [item["status"] for item in status["steps"]] == ["cancelled"]
        assert jobs.cancel(name)["status"] == "cancelled"
        jobs.delete(name)
        refused(jobs.get(name), 404)
        refused(jobs.get(name, "logs"), 404)
        refused(jobs.http.delete(jobs.url(name)), 404)

    def test_a_job_that_has_ended_stays_as_it_is(self, jobs: Jobs, ended: str) -> None:
        before = jobs.job(ended)
        assert jobs.cancel(ended) == before
        assert jobs.job(ended) == before

    def test_a_name_can_be_used_again_after_delete(self, jobs: Jobs) -> None:
        name = fresh()
        ids = set()
        for text in ("first", "second", "third"):
            jobs.run(name, f"echo {text}")
            assert jobs.lines(name) == [text]
            ids.add(jobs.job(name)["id"])
            jobs.delete(name)
        assert len(ids) == 3
        for identifier in ids:
            refused(jobs.get(identifier), 404)
        assert jobs.list(filter=f'{{"name": "{name}"}}')["data"] == []
        jobs.create(name, "echo once more; sleep 300")
        assert wait_until(lambda: jobs.lines(name), what="the new log") == ["once more"]
        assert jobs.list(filter=f'{{"name": "{name}"}}')["pagination"]["total_results"] == 1
        jobs.cancel(name)
