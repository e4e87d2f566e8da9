"""Two workspaces that do not see each other, and users who may do one thing and not another.

What a user may not know of reads like what does not exist: byte by byte, but for the name that was asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.stack import AirflowStack
from tests.stack.auth import settings_of
from tests.wire.jobs import API, LONG, Jobs, answered, body, fresh, refused, step

#: Words that only jobs of `research` say.
SPOKEN, SOURCE, PROJECT = "spoken-in-research", "source-in-research", "project-in-research"
TOKEN = "value-of-a-secret-in-research"

USERS = {name: "user" for name in ("ann", "bob", "reader", "deaf", "partial")} | {
    "root": "admin",
    "op": "op",
    "viewer": "viewer",
}

#: `ann` does not know `research`; `bob` does not know `default`; `reader` changes nothing there, `deaf` reads no logs
#: there, and `partial` sees no DAG of a job that begins with a step `hidden`.
DENIED = [
    ("ann", "nemo.research", "*", "*"),
    ("bob", "nemo.default", "*", "*"),
    *(("reader", "nemo.default", method, "*") for method in ("POST", "PUT", "DELETE")),
    ("deaf", "nemo.default", "GET", "TASK_LOGS"),
    ("partial", "nemo.default.hidden", "*", "*"),
]

GRANTS = [["default", "research/granted"]]

As = Callable[..., Jobs]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    with AirflowStack(
        tmp_path_factory.mktemp("permissions") / "home",
        users=USERS,
        environ={
            "AIRFLOW__NEMO__WORKSPACES": json.dumps(["default", "research"]),
            "AIRFLOW__NEMO__SECRET_GRANTS": json.dumps(GRANTS),
            **{f"AIRFLOW_VAR_NEMO_SECRET.RESEARCH.{name}": TOKEN for name in ("GRANTED", "KEPT")},
            **settings_of(DENIED),
        },
    ) as started:
        yield started


@pytest.fixture(scope="module")
def as_user(stack: AirflowStack) -> Iterator[As]:
    """The jobs of a workspace as a user sees them."""
    clients: dict[str, httpx.Client] = {name: stack.client(name, timeout=90) for name in USERS}
    yield lambda name, workspace="default": Jobs(clients[name], workspace)
    for client in clients.values():
        client.close()


@dataclass(frozen=True)
class Theirs:
    """A job of `research` and everything that can be known of it."""

    name: str
    id: str
    step: str
    task: str
    cursor: str


@pytest.fixture(scope="module")
def theirs(as_user: As) -> Theirs:
    """Two lines, then an error."""
    jobs = as_user("root", "research")
    name = fresh("theirs")
    jobs.create(name, f"echo {SPOKEN}; echo {SPOKEN}; exit 3", source=SOURCE, project=PROJECT)
    shown = jobs.wait(name, "error")
    (first,) = shown["steps"]
    cursor = jobs.log(name, limit=1)["next_page"]
    return Theirs(name, shown["id"], first["id"], first["tasks"][0]["name"], cursor)


@pytest.fixture(scope="module")
def own(as_user: As, theirs: Theirs) -> str:
    """A job of `default` that has ended."""
    name = fresh("own")
    as_user("ann").create(name, "echo own; exit 4", source="own", project="own")
    as_user("ann").wait(name, "error")
    return name


def requests(jobs: Jobs, name: str, step: str = "one", task: str = "task-0123456789ab") -> list[httpx.Response]:
    """Every call of a workspace, for one job in it."""
    reads = [
        (),
        (name,),
        (name, "status"),
        (name, "logs"),
        (name, "results"),
        (name, "steps"),
        (name, "steps", step),
        (name, "steps", step, "tasks"),
        (name, "steps", step, "tasks", task),
    ]
    changes = [("POST", (name, verb)) for verb in ("cancel", "pause", "resume")] + [("DELETE", (name,))]
    made = [body(fresh("made"), "true"), body(None, "true"), body(name, "true"), {}, body(name, "true", spec=None)]
    return [
        *(jobs.get(*path) for path in reads),
        *(jobs.http.request(method, jobs.url(*path)) for method, path in changes),
        *(jobs.post(content) for content in made),
        jobs.get(filter='{"name": "x"}', page_size=5),
        jobs.get(name, "logs", limit=0),
        jobs.get(name, "logs", tail=1, limit=1),
        jobs.get(name, "logs", page_cursor="nonsense"),
        jobs.get(filter="{"),
    ]


def seen(answer: httpx.Response, *names: str) -> tuple[int, str, list[str]]:
    """What can be told of an answer: all of it, but the names that were asked for and the time."""
    text = answer.text
    for name in names:
        text = text.replace(name, "<asked>")
    return answer.status_code, text, sorted(set(answer.headers) - {"content-length", "date"})


class TestAnotherWorkspace:
    def test_reads_like_one_that_does_not_exist(self, as_user: As, theirs: Theirs) -> None:
        unreadable = requests(as_user("ann", "research"), theirs.name, task=theirs.task)
        unknown = requests(as_user("ann", "nowhere1"), theirs.name, task=theirs.task)
        for one, other in zip(unreadable, unknown, strict=True):
            assert one.status_code in (404, 422, 400), one.request.url
            assert seen(one, "research") == seen(other, "nowhere1"), one.request.url
            assert SPOKEN not in one.text and SOURCE not in one.text

    def test_cannot_be_created_in(self, as_user: As, theirs: Theirs) -> None:
        for name in (fresh(), theirs.name):
            text = refused(as_user("ann", "research").post(body(name, "true")), 422)
            assert text == "Workspace 'research' does not exist. Please create the workspace first."

    @pytest.mark.parametrize("workspace", ["default", "-"])
    def test_stands_in_no_list(self, as_user: As, theirs: Theirs, own: str, workspace: str) -> None:
        jobs = as_user("ann", workspace)
        queries: list[dict[str, Any]] = [
            {},
            {"sort": "-updated_at", "page_size": 1},
            {"filter": json.dumps({"status": "error"})},
            {"filter": json.dumps({"$not": {"name": own}})},
            {"filter": json.dumps({"name": {"$like": "theirs"}})},
            *(
                {"filter": json.dumps({field: value})}
                for field, value in (
                    ("name", theirs.name),
                    ("id", theirs.id),
                    ("source", SOURCE),
                    ("project", PROJECT),
                    ("workspace", "research"),
                )
            ),
        ]
        for query in queries:
            page = jobs.list(**query)
            total = page["pagination"]["total_results"]
            assert {row["workspace"] for row in page["data"]} <= {"default"}
            everyone = as_user("root", "default").list(**query)
            assert total == everyone["pagination"]["total_results"], query
        steps = answered(jobs.get("-", "steps"))
        assert steps["data"] and {row["workspace"] for row in steps["data"]} == {"default"}
        assert steps["pagination"]["total_results"] == len(steps["data"])
        for named in (theirs.name, theirs.id):
            assert answered(jobs.get("-", "steps", **{"filter[job]": named}))["data"] == []
            assert answered(jobs.get(named, "steps"))["data"] == []

    def test_lends_no_id_to_another(self, as_user: As, theirs: Theirs, own: str) -> None:
        ann = as_user("ann")
        # As long and as well formed, and of no job.
        free = re.sub("[^-]$", lambda last: "2" if last[0] != "2" else "3", theirs.id)
        for known, unknown in ((theirs.name, "a" * len(theirs.name)), (theirs.id, free)):
            for path in ((), ("status",), ("logs",), ("steps",), ("steps", "one"), ("steps", theirs.step)):
                one, other = ann.get(known, *path), ann.get(unknown, *path)
                assert seen(one, known) == seen(other, unknown), path
            for verb in ("cancel", "pause", "resume"):
                one, other = (ann.http.post(ann.url(name, verb)) for name in (known, unknown))
                assert seen(one, known) == seen(other, unknown), verb
            one, other = (ann.http.delete(ann.url(name)) for name in (known, unknown))
            assert seen(one, known) == seen(other, unknown)
        assert refused(ann.get(own, "steps", theirs.step), 404) == (
            f"Step '{theirs.step}' for job '{own}' not found in workspace 'default'."
        )
        refused(ann.get(own, "steps", "one", "tasks", theirs.task), 404)
        assert "match" in refused(ann.get(own, "logs", page_cursor=theirs.cursor, limit=1), 422)
        assert as_user("root", "research").status(theirs.name)["status"] == "error"

    def test_keeps_its_names_from_nobody(self, as_user: As, theirs: Theirs) -> None:
        created = as_user("ann").create(theirs.name, "echo mine")
        assert created["id"] != theirs.id
        as_user("ann").wait(theirs.name, "completed")
        assert as_user("ann").lines(theirs.name) == ["mine"]
        as_user("ann").delete(theirs.name)

    def test_the_other_way_round(self, as_user: As, theirs: Theirs, own: str) -> None:
        bob = as_user("bob", "-")
        assert {row["workspace"] for row in bob.list()["data"]} == {"research"}
        assert refused(as_user("bob").get(own), 404) == "Workspace 'default' not found"
        assert as_user("bob", "research").lines(theirs.name) == [SPOKEN, SPOKEN]

    @pytest.mark.parametrize(
        "headers",
        [
            {"X-NHX-Principal-Id": "root"},
            {"X-NHX-Principal-Id": "service:jobs", "X-NHX-Principal-On-Behalf-Of": "bob"},
            {"X-NHX-Principal": '{"principal_id": "root"}'},
        ],
    )
    def test_headers_are_no_identity(self, as_user: As, theirs: Theirs, headers: dict[str, str]) -> None:
        ann = as_user("ann", "research")
        for path in ((), (theirs.name,), (theirs.name, "logs")):
            answer = ann.http.get(ann.url(*path), headers=headers)
            assert refused(answer, 404) == "Workspace 'research' not found"
        name = fresh()
        mine = as_user("ann")
        answered(mine.http.post(mine.url(), json=body(name, "echo $NHX_PRINCIPAL"), headers=headers), 201)
        mine.wait(name, "completed")
        assert mine.lines(name) == ['{"principal_id": "ann"}']


class TestSecrets:
    def needing(self, reference: str) -> dict[str, Any]:
        steps = [step("one", "echo $TOKEN", environment=[{"name": "TOKEN", "from_secret": {"name": reference}}])]
        return body(None, platform_spec={"steps": steps})

    def test_creation_is_no_oracle(self, as_user: As) -> None:
        references = (
            "missing",
            "default/missing",
            "research/granted",  # there and granted, but ann may not know the workspace
            "research/kept",
            "research/missing",
            "nowhere/missing",
        )
        answers = [as_user("ann").post(self.needing(reference)) for reference in references]
        assert len({str(seen(answer)) for answer in answers}) == 1
        assert refused(answers[0], 409).startswith("Unable to create job because one or more referenced secrets")

    def test_who_may_read_both_may_use_what_is_granted(self, as_user: As) -> None:
        name = answered(as_user("root").post(self.needing("research/granted")), 201)["name"]
        as_user("root").wait(name, "completed")
        assert as_user("root").lines(name) == ["***"]
        refused(as_user("root").post(self.needing("research/kept")), 409)
        refused(as_user("bob").post(self.needing("research/granted")), 422)


class TestRights:
    @pytest.mark.parametrize("user", ["reader", "viewer"])
    def test_who_may_only_read(self, as_user: As, own: str, user: str) -> None:
        running = fresh()
        as_user("root").create(running, LONG)
        as_user("root").wait_for_lines(running, 1)
        jobs = as_user(user)
        for name in (own, running):
            assert answered(jobs.get(name))["name"] == name
            jobs.lines(name)
            calls = [("POST", (name, verb), "change") for verb in ("cancel", "pause", "resume")]
            for method, path, verb in [*calls, ("DELETE", (name,), "delete")]:
                text = refused(jobs.http.request(method, jobs.url(*path)), 403)
                assert text.startswith(f"You may read workspace 'default' but not {verb} jobs there."), path
        for content in (body(fresh(), "true"), body(own, "true")):
            assert refused(jobs.post(content), 403).startswith("You may read workspace 'default' but not create jobs")
        assert as_user("root").status(running)["status"] == "active"
        as_user("root").cancel(running)

    @pytest.mark.parametrize("user", ["op", "ann"])
    def test_who_may_change(self, as_user: As, user: str) -> None:
        jobs, name = as_user(user), fresh()
        jobs.create(name, LONG)
        jobs.wait_for_lines(name, 1)
        assert jobs.cancel(name)["status"] in ("cancelling", "cancelled")
        assert jobs.wait(name, "cancelled")["status_details"]["cancelled_by"] == user
        jobs.delete(name)

    def test_logs_are_a_right_of_their_own(self, as_user: As, own: str) -> None:
        deaf, task = as_user("deaf"), "error_stack"
        assert answered(deaf.get(own))["status"] == "error"
        text = refused(deaf.get(own, "logs"), 403)
        assert text.startswith("You may read workspace 'default' but not read logs of jobs there.")
        refused(deaf.get(own, "logs", tail=1), 403)
        (first,) = deaf.status(own)["steps"]
        assert first["tasks"][0][task] is None
        assert answered(deaf.get(own, "steps", "one", "tasks"))["data"][0][task] is None
        assert answered(deaf.get(own, "steps", "one", "tasks", first["tasks"][0]["name"]))[task] is None
        assert as_user("viewer").status(own)["steps"][0]["tasks"][0][task] == "own"

    def test_a_dag_that_is_denied_in_a_workspace_that_is_not(self, as_user: As, own: str) -> None:
        name = fresh("hidden")
        steps = [step("hidden", f"echo {SPOKEN}")]
        hidden = body(name, platform_spec={"steps": steps}, source="hidden")
        identifier = answered(as_user("root").post(hidden), 201)["id"]
        as_user("root").wait(name, "completed")
        jobs = as_user("partial")
        for known in (name, identifier):
            for path in ((), ("status",), ("logs",), ("steps", "hidden")):
                unknown = "a" * len(known)
                assert seen(jobs.get(known, *path), known) == seen(jobs.get(unknown, *path), unknown)
            assert answered(jobs.get(known, "steps"))["data"] == []
        assert jobs.list(filter=json.dumps({"source": "hidden"}))["pagination"]["total_results"] == 0
        assert own in {row["name"] for row in jobs.list(page_size=1000)["data"]}
        refused(jobs.post(body(fresh(), platform_spec={"steps": steps})), 403)


def test_the_profiles_are_the_same_for_everybody(as_user: As) -> None:
    texts = {as_user(name).http.get(f"{API}/execution-profiles").text for name in USERS}
    assert len(texts) == 1
