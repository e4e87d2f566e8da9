"""The unmodified upstream `JobsClient` against our server: every method there is an endpoint for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.jobs import LONG, Jobs, body, fresh, step
from tests.wire.upstream import Client, ClientError

PROJECT = "wire-library"


@pytest.fixture(scope="module")
def ended(client: Client) -> str:
    """A job made and watched to its end by upstream's client: 30 lines, then a second step."""
    name = fresh("lib")
    client("create_job", body=body(name, "seq 30", "echo end", project=PROJECT))
    events = client("watch", name=name, poll_interval=0.2)
    assert messages_of(events) == [*map(str, range(1, 31)), "end"]
    return name


@pytest.fixture(scope="module")
def failed(client: Client) -> str:
    name = fresh("lib")
    client("create_job", body=body(name, "echo about to fail; exit 4", project=PROJECT, source="sad"))
    client("watch", name=name, poll_interval=0.2)
    return name


@pytest.fixture(scope="module")
def cancelled(client: Client, jobs: Jobs) -> str:
    name = fresh("lib")
    client("create_job", body=body(name, LONG, project=PROJECT))
    jobs.wait_for_lines(name, 1)
    assert client("cancel_job", name=name)["status"] == "cancelling"
    jobs.wait(name, "cancelled")
    return name


def status_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["status"] for event in events if event["kind"] == "status"]


def messages_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"] for event in events if event["kind"] == "log"]


class TestJobs:
    def test_create_get_and_get_by_id(self, client: Client) -> None:
        name = fresh()
        created = client(
            "create_job", body=body(name, "true", description="d", ownership={"a": 1}, custom_fields={"b": [2]})
        )
        assert (created["status"], created["description"], created["ownership"]) == ("created", "d", {"a": 1})
        assert client("get_job", name=created["id"])["custom_fields"] == {"b": [2]}
        assert client("get_job_status", name=name)["id"] == created["id"]

    def test_lists(self, client: Client, ended: str, failed: str, cancelled: str) -> None:
        def found(**asked: Any) -> set[str]:
            query = {"filter": json.dumps({"project": PROJECT, **asked}), "page_size": 2}
            return {job["name"] for job in client("list_jobs", query_params=query)}

        assert found() == {ended, failed, cancelled}
        assert found(status="error") == {failed}
        assert found(status=["completed", "cancelled"]) == {ended, cancelled}
        assert found(source="sad") == {failed}
        assert found(created_at={"gte": "2020-01-01T00:00:00"}) == {ended, failed, cancelled}
        assert found(created_at={"lte": "2020-01-01T00:00:00"}) == set()

    def test_a2_pages(self, client: Client, ended: str, failed: str, cancelled: str) -> None:
        query = {
            "filter": json.dumps({"project": PROJECT, "status": ["error", "completed"]}),
            "page_size": 1,
            "sort": "created_at",
        }
        pages = client("pages", of="list_jobs", query_params=query)
        assert [[job["name"] for job in page["items"]] for page in pages] == [[ended], [failed]]

    def test_pause_and_resume(self, client: Client, jobs: Jobs) -> None:
        name = fresh("sdk")
        jobs.create(name, LONG)
        jobs.wait_for_lines(name, 1)
        assert client("pause_job", name=name)["status"] == "pausing"
        jobs.wait(name, "paused")
        assert client("resume_job", name=name)["status"] in ("resuming", "pending", "active")
        jobs.wait(name, "active")
        jobs.cancel(name)

    def test_delete(self, client: Client) -> None:
        name = fresh()
        client("create_job", body=body(name, "true"))
        client("watch", name=name, poll_interval=0.2)
        assert client("delete_job", name=name) is None
        with pytest.raises(ClientError, match="not found in workspace 'default'") as raised:
            client("get_job", name=name)
        assert raised.value.status == 404

    def test_profiles(self, client: Client) -> None:
        (profile,) = [item for item in client("get_execution_profiles") if item["provider"] == "subprocess"]
        assert (profile["profile"], profile["backend"]) == ("default", "subprocess")

    @pytest.mark.parametrize(
        ("change", "status", "words"),
        [
            ({"name": None}, 409, "already exists in workspace 'default'"),
            ({"platform_spec": None}, 422, "The execution profile 'gpu/x' specified in step 'aa' does not exist."),
        ],
    )
    def test_refusals(self, client: Client, ended: str, change: dict[str, Any], status: int, words: str) -> None:
        content = body(ended, "true")
        if "platform_spec" in change:
            gpu = {"provider": "gpu", "profile": "x", "container": {}}
            content = body(fresh(), platform_spec={"steps": [{"name": "aa", "executor": gpu}]})
        with pytest.raises(ClientError, match=words) as raised:
            client("create_job", body=content)
        assert raised.value.status == status

    @pytest.mark.parametrize("reference", ["none", "default/none", "elsewhere/none"])
    def test_a_secret_that_is_not_there(self, client: Client, reference: str) -> None:
        needing = step("one", "true", environment=[{"name": "TOKEN", "from_secret": {"name": reference}}])
        with pytest.raises(ClientError) as raised:
            client("create_job", body=body(fresh(), platform_spec={"steps": [needing]}))
        assert raised.value.status == 409
        assert (
            "Unable to create job because one or more referenced secrets were not found or are not accessible. Verify "
            "each platform_spec secret reference uses the expected workspace/name and that you have access."
        ) in raised.value.text

    def test_a_workspace_that_is_not_there(self, client: Client) -> None:
        with pytest.raises(ClientError, match="Workspace 'elsewhere' not found") as raised:
            client("list_jobs", workspace="elsewhere")
        assert raised.value.status == 404


class TestStepsAndTasks:
    def test_steps_and_tasks(self, client: Client, ended: str) -> None:
        steps = client("list_steps", name=ended)
        assert [(step["name"], step["status"]) for step in steps] == [("one", "completed"), ("two", "completed")]
        step = client("get_job_step", job=ended, name="two")
        assert step["id"] == step["entity_id"] == steps[1]["id"]
        (task,) = client("list_job_step_tasks", job=ended, name="two")["data"]
        assert client("get_job_step_task", job=ended, step="two", name=task["name"]) == task

    def test_a4_by_id(self, client: Client, ended: str) -> None:
        identifier = client("get_job", name=ended)["id"]
        steps = client("list_steps", name=identifier)
        assert [step["job"] for step in steps] == [ended, ended]
        assert client("get_job_step", job=identifier, name=steps[0]["id"])["id"] == steps[0]["id"]
        assert len(client("list_job_logs", name=identifier)) == 31

    def test_the_steps_of_a_failed_job(self, client: Client, failed: str) -> None:
        status = client("get_job_status", name=failed)
        assert status["error_details"]["message"] == "Job exited with code 4"
        task = status["steps"][0]["tasks"][0]
        assert task["status"] == "error" and "about to fail" in task["error_stack"]


class TestLogs:
    def test_pages_follow_their_cursors(self, client: Client, ended: str) -> None:
        pages = client("pages", of="list_job_logs", name=ended, query_params={"limit": 12})
        assert [len(page["items"]) for page in pages] == [12, 12, 7]
        found = [line["message"] for page in pages for line in page["items"]]
        assert found == [*map(str, range(1, 31)), "end"]

    def test_filters_and_tail(self, client: Client, ended: str) -> None:
        def lines(**query: Any) -> list[str]:
            return [line["message"] for line in client("list_job_logs", name=ended, query_params=query)]

        task = client("list_job_step_tasks", job=ended, name="one")["data"][0]["name"]
        assert lines(step_id="two") == ["end"]
        assert len(lines(task_id=task)) == 30
        assert lines(tail=2) == ["30", "end"]
        assert len(lines(attempt_id=0)) == 31 and lines(attempt_id=5) == []

    def test_refusals(self, client: Client, ended: str) -> None:
        for query, status, words in (
            ({"tail": 5, "limit": 5}, 400, "tail cannot be combined with limit"),
            ({"page_cursor": "nonsense"}, 422, "Invalid page cursor"),
            ({"limit": 0}, 422, "greater than or equal to 1"),
        ):
            with pytest.raises(ClientError, match=words) as raised:
                client("list_job_logs", name=ended, query_params=query)
            assert raised.value.status == status


class TestWatch:
    def test_l1_a_job_from_its_creation_to_its_end(self, client: Client) -> None:
        name = fresh()
        script = "for i in 1 2 3 4; do echo line $i; sleep 0.4; done; echo last"
        client("create_job", body=body(name, script, "echo second"))
        events = client("watch", name=name, poll_interval=0.1, limit=2)
        assert messages_of(events) == ["line 1", "line 2", "line 3", "line 4", "last", "second"]
        seen = status_of(events)
        assert seen[-1] == "completed" and "active" in seen
        assert not [event for event in events if event["kind"] == "warning"]

    def test_history_can_be_left_out(self, client: Client, ended: str) -> None:
        events = client("watch", name=ended, include_history=False)
        assert (status_of(events), messages_of(events)) == (["completed"], [])

    def test_a_failing_job(self, client: Client, failed: str) -> None:
        events = client("watch", name=failed)
        assert status_of(events) == ["error"] and messages_of(events) == ["about to fail"]
        assert events[0]["error_details"]["message"] == "Job exited with code 4"
        assert (events[0]["terminal"], events[0]["successful"]) == (True, False)

    def test_a_cancelled_job(self, client: Client, cancelled: str) -> None:
        events = client("watch", name=cancelled)
        assert status_of(events) == ["cancelled"] and messages_of(events) == ["begun", "stopping"]

    def test_a_refused_cursor_begins_anew(self, client: Client, ended: str) -> None:
        assert len(messages_of(client("watch", name=ended, page_cursor="nonsense"))) == 31

    def test_no_job(self, client: Client) -> None:
        with pytest.raises(ClientError) as raised:
            client("watch", name="no-such-job")
        assert raised.value.status == 404
