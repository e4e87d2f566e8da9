"""Create, find and list, over an Airflow in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import Conflict, Forbidden, InvalidJob, NotFound, Unavailable
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import JobRequest
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.profiles import load_profiles
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.creation import Creation
from nemo_airflow_provider.service.filters import parse_filter
from nemo_airflow_provider.service.gateway import Right, RunRow
from nemo_airflow_provider.service.listing import Listing, PageRequest, StepFilter
from nemo_airflow_provider.service.lookup import Lookup
from tests.unit.service.fakes import ANN, FakeGateway, record, spec_of

ANCHOR = names.anchor_dag_id("default")


def body(name: str | None = "job-1", **changes: Any) -> dict[str, Any]:
    step = {"name": "train", "executor": {"provider": "subprocess", "command": ["true"]}} | changes.pop("step", {})
    return {"name": name, "source": "test", "spec": {"a": 1}, "platform_spec": {"steps": [step]}} | changes


def create(gateway: FakeGateway, access: Access, given: dict[str, Any], workspace: str = "default") -> dict[str, Any]:
    creation = Creation(gateway, access, ANN, load_profiles(None, environ={}, probe=None))
    return asyncio.run(creation.create(workspace, JobRequest.model_validate(given), given))


class TestCreate:
    def test_a_run_is_made_under_the_names_lock(self, gateway: FakeGateway, access: Access) -> None:
        job = create(gateway, access, body())
        # That the lock is held when the run is made says the gateway's `trigger`.
        assert (job["status"], job["name"], gateway.locked, gateway.held) == ("created", "job-1", ["job-1"], set())
        assert job["id"] == names.job_id(names.run_key(*_identity(gateway)))
        assert list(gateway.shapes) == [gateway.rows[0].dag_id]

    def test_a_name_is_made(self, gateway: FakeGateway, access: Access) -> None:
        assert create(gateway, access, body(None, source="My CI"))["name"].startswith("my-ci-")

    def test_a_name_is_unique_across_shapes(self, gateway: FakeGateway, access: Access) -> None:
        create(gateway, access, body())
        with pytest.raises(Conflict, match="Job 'job-1' already exists in workspace 'default'. Choose"):
            create(gateway, access, body(step={"name": "other"}))
        assert len(gateway.rows) == 1
        create(gateway, access, body(), "research")

    def test_the_name_of_a_deleted_job_is_free(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("job-1", deleted=True)
        create(gateway, access, body())
        assert [row.run_id for row in gateway.rows] == ["job-1", "job-1~2"]

    @pytest.mark.parametrize(
        ("there", "made"),
        [
            (["job-1~999999999"], "job-1"),
            (["job-1", "job-1~999999999"], "job-1~2"),
            (["job-1~2", "job-1~4"], "job-1"),
            (["job-1~3", "job-1", "job-1~2"], "job-1~4"),
        ],
    )
    def test_the_first_run_id_that_is_free_in_any_shape(
        self, gateway: FakeGateway, access: Access, there: list[str], made: str
    ) -> None:
        for number, run_id in enumerate(there):
            gateway.add("job-1", spec_of("train" if number % 2 else "other"), run_id=run_id, deleted=True)
        job = create(gateway, access, body())
        assert gateway.rows[-1].run_id == made
        assert Lookup(gateway, access).job("default", "job-1").id == job["id"]

    def test_a_run_id_taken_through_airflows_own_door(
        self, gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def taken(*_: Any) -> Any:
            raise Conflict("Airflow answered 409. Its log says why.")

        monkeypatch.setattr(gateway, "trigger", taken)
        with pytest.raises(Conflict, match="Job 'job-1' already exists in workspace 'default'. Choose"):
            create(gateway, access, body())
        assert gateway.held == set()

    @pytest.mark.parametrize(
        ("call", "after"), [("runs_named", 0), ("runs_named", 1), ("ensure_shape", 0), ("name_lock", 0)]
    )
    @pytest.mark.parametrize("undone", [True, False])
    def test_a_database_that_fails_before_the_run_is_made(
        self, gateway: FakeGateway, access: Access, call: str, after: int, undone: bool
    ) -> None:
        gateway.fail(call, after=after, undone=undone)
        with pytest.raises(Unavailable, match=r"^Airflow's database was away. No job was created; try again.$"):
            create(gateway, access, body())
        assert (gateway.rows, gateway.held) == ([], set())

    @pytest.mark.parametrize("undone", [True, False])
    def test_a_database_that_fails_when_the_run_was_made(
        self, gateway: FakeGateway, access: Access, undone: bool
    ) -> None:
        gateway.fail("trigger", undone=undone)
        with pytest.raises(Unavailable) as caught:
            create(gateway, access, body())
        assert str(caught.value) == (
            "Airflow's database was away. Look whether job 'job-1' was created before you try again."
        )
        assert len(gateway.rows) == 1

    def test_a_shape_that_was_retired_before_its_lock_was_had(self, gateway: FakeGateway, access: Access) -> None:
        create(gateway, access, body(name="job-1"))
        gateway.retired = set(gateway.shapes)
        with pytest.raises(Unavailable, match=r"was being retired. No job was created; try again.$"):
            create(gateway, access, body(name="job-2"))
        assert ([row.run_id for row in gateway.rows], gateway.held) == (["job-1"], set())

    def test_unknown_keys_are_named(self, gateway: FakeGateway, access: Access) -> None:
        job = create(gateway, access, body(sorce="x"))
        assert job["status_details"] == {"warnings": ["Unknown keys were ignored: sorce"]}

    def test_a_flood_of_unknown_keys_is_not_kept(self, gateway: FakeGateway, access: Access) -> None:
        job = create(gateway, access, body(**{f"k{number:02}": 1 for number in range(30)}, a="x", **{"a" * 300: 1}))
        (warning,) = job["status_details"]["warnings"]
        shown = ["a", "a" * 199 + "…", *(f"k{number:02}" for number in range(18))]
        assert warning == f"Unknown keys were ignored: {', '.join(shown)} and 12 more"

    @pytest.mark.parametrize(
        ("step", "error", "text"),
        [
            (
                {"executor": {"provider": "gpu", "profile": "x", "container": {}}},
                InvalidJob,
                "The execution profile 'gpu/x' specified in step 'train' does not exist.",
            ),
        ],
    )
    def test_refusals(
        self, gateway: FakeGateway, access: Access, step: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text):
            create(gateway, access, body(step=step))

    def test_a_backend_whose_packages_are_absent(
        self, gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(BACKENDS, "docker", replace(BACKENDS["docker"], packages=("no_such_package_xyz",)))
        with pytest.raises(InvalidJob, match="Execution profile 'cpu/default' in step 'train' needs backend 'docker'"):
            create(gateway, access, body(step={"executor": {"provider": "cpu", "container": {}}}))
        assert gateway.rows == []
        assert gateway.shapes == {}

    def test_there_are_no_filesets_yet(self, gateway: FakeGateway, access: Access) -> None:
        with pytest.raises(InvalidJob, match="fileset 'out' not found or not accessible in workspace 'default'"):
            create(gateway, access, body(output_location="out"))

    def test_rights(self, gateway: FakeGateway, access: Access) -> None:
        with pytest.raises(InvalidJob, match="Workspace 'nope' does not exist. Please create the workspace first."):
            create(gateway, access, body(), "nope")
        gateway.denied = {(Right.CREATE, ANCHOR)}
        with pytest.raises(Forbidden, match="not create jobs"):
            create(gateway, access, body())
        gateway.denied = {(Right.CREATE, names.shape_dag_id("default", spec_of().platform_spec.shape()))}
        with pytest.raises(Forbidden, match="not create jobs"):
            create(gateway, access, body())
        assert gateway.rows == []
        gateway.denied = {(Right.READ, ANCHOR)}
        with pytest.raises(InvalidJob, match="Workspace 'default' does not exist"):
            create(gateway, access, body())


class TestLookup:
    def test_by_name_and_by_id(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("a.b+c@d")
        lookup = Lookup(gateway, access)
        job = lookup.job("default", "a.b+c@d")
        assert lookup.job("default", job.id).name == "a.b+c@d"
        assert lookup.step("default", job.id, "train").id == lookup.step("default", "a.b+c@d", job.steps[0].id).id

    def test_a_job_named_like_an_id(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("platform-job-3x")
        assert Lookup(gateway, access).job("default", "platform-job-3x").name == "platform-job-3x"

    @pytest.mark.parametrize("name", ["other", "UPPER", "", "platform-job-zzzzzzzzzzzz", "job-1~2", "../x"])
    def test_not_found(self, gateway: FakeGateway, access: Access, name: str) -> None:
        gateway.add("job-1")
        with pytest.raises(NotFound) as caught:
            Lookup(gateway, access).job("default", name)
        assert str(caught.value) == f"Job '{name}' not found in workspace 'default'."

    def test_hidden(self, gateway: FakeGateway, access: Access) -> None:
        row = gateway.add("job-1")
        gateway.denied = {(Right.READ, row.dag_id)}
        with pytest.raises(NotFound, match="Job 'job-1' not found"):
            Lookup(gateway, access).job("default", "job-1")
        gateway.denied = {(Right.READ, ANCHOR)}
        with pytest.raises(NotFound, match="Workspace 'default' not found"):
            Lookup(gateway, access).job("default", "job-1")

    def test_a_deleted_run_has_no_name(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("job-1", deleted=True)
        gateway.add("job-1", run_id="job-1~2")
        assert Lookup(gateway, access).job("default", "job-1").run.run_id == "job-1~2"

    @pytest.mark.parametrize("run_id", ["job-1", "job-1~2", "job-1~999999999"])
    def test_a_name_is_its_holders_until_that_is_deleted(
        self, gateway: FakeGateway, access: Access, run_id: str
    ) -> None:
        held = gateway.add("job-1")
        gateway.add("job-1", spec_of("other"), run_id=run_id)  # through Airflow's own door
        lookup = Lookup(gateway, access)
        assert lookup.job("default", "job-1").run.pk == held.pk
        other = next(view for view in lookup.views(gateway.runs_of("default")) if view.run.pk != held.pk)
        assert lookup.job("default", other.id).run.pk == other.run.pk
        gateway.rows[0] = replace(held, deleted=True)
        assert lookup.job("default", "job-1").run.pk == other.run.pk


class TestOutput:
    """The end of a task's output is part of the log: who may not read that is not shown it."""

    STACK = "Traceback: secret"

    def ended(self, gateway: FakeGateway) -> RunRow:
        row = gateway.run_state(gateway.add("job-1"), "failed")
        left = record(Status.ERROR)
        left.tasks[0].error_stack = self.STACK
        gateway.step(row, "train", "failed", left)
        return row

    def shown(self, gateway: FakeGateway, access: Access) -> list[Any]:
        """`error_stack` as endpoints 7, 17 and 19 show it."""
        lookup = Lookup(gateway, access)
        status = render.job_status(lookup.job("default", "job-1"))["steps"][0]["tasks"][0]
        step = lookup.step("default", "job-1", "train")
        tasks = [render.task(step, row) for row in step.tasks]
        task = render.task(*lookup.task("default", "job-1", "train", tasks[0]["name"]))
        return [item["error_stack"] for item in (status, *tasks, task)]

    def test_a_reader_of_logs(self, gateway: FakeGateway, access: Access) -> None:
        self.ended(gateway)
        assert self.shown(gateway, access) == [self.STACK] * 3

    @pytest.mark.parametrize("where", ["anchor", "shape"])
    def test_another_reader(self, gateway: FakeGateway, access: Access, where: str) -> None:
        row = self.ended(gateway)
        gateway.denied = {(Right.READ_LOGS, ANCHOR if where == "anchor" else row.dag_id)}
        assert self.shown(gateway, access) == [None] * 3

    def test_nobody_is_asked_about_where_there_is_none(self, gateway: FakeGateway, access: Access) -> None:
        row = gateway.run_state(gateway.add("job-1"), "running")
        gateway.step(row, "train", "running", record(Status.ACTIVE))
        Lookup(gateway, access).job("default", "job-1")
        assert {right for right, _ in gateway.asked} == {Right.READ}


class TestLists:
    def listing(self, gateway: FakeGateway, access: Access) -> Listing:
        return Listing(gateway, access, ["default", "research"])

    def fill(self, gateway: FakeGateway) -> None:
        for number in range(25):
            row = gateway.add(f"job-{number:02}", spec_of(source="even" if number % 2 == 0 else "odd"))
            if number < 5:
                gateway.run_state(row, "success")
                gateway.step(row, "train", "success", record(Status.COMPLETED))

    @pytest.mark.parametrize(("page", "size", "rows"), [(1, 10, 10), (3, 10, 5), (4, 10, 0), (1, 5000, 25)])
    def test_pages(self, gateway: FakeGateway, access: Access, page: int, size: int, rows: int) -> None:
        self.fill(gateway)
        answer = self.listing(gateway, access).jobs("default", PageRequest(page, size, "-created_at"), None)
        assert len(answer["data"]) == rows
        assert answer["pagination"] == {
            "page": page,
            "page_size": min(size, 1000),
            "current_page_size": rows,
            "total_pages": 3 if size == 10 else 1,
            "total_results": 25,
        }
        assert "filter" not in answer

    def test_filters_come_before_paging(self, gateway: FakeGateway, access: Access) -> None:
        self.fill(gateway)
        asked = parse_filter('{"status": ["completed"]}')
        answer = self.listing(gateway, access).jobs("default", PageRequest(1, 2, "created_at"), asked)
        assert [job["name"] for job in answer["data"]] == ["job-00", "job-01"]
        assert answer["pagination"]["total_results"] == 5
        assert answer["filter"] == {"status": {"$in": ["completed"]}}

    def test_sorting_by_source(self, gateway: FakeGateway, access: Access) -> None:
        self.fill(gateway)
        answer = self.listing(gateway, access).jobs("default", PageRequest(1, 100, "-source"), None)
        assert [job["source"] for job in answer["data"]] == ["odd"] * 12 + ["even"] * 13

    def test_an_empty_list_has_a_page(self, gateway: FakeGateway, access: Access) -> None:
        answer = self.listing(gateway, access).jobs("default", PageRequest(1, 10, "created_at"), None)
        assert (answer["data"], answer["pagination"]["total_pages"]) == ([], 1)

    def test_only_what_may_be_read(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("mine")
        hidden = gateway.add("hidden", spec_of("other"))
        gateway.add("theirs", workspace="research")
        gateway.add("gone", deleted=True)
        gateway.denied = {(Right.READ, hidden.dag_id), (Right.READ, names.anchor_dag_id("research"))}
        answer = self.listing(gateway, access).jobs("-", PageRequest(1, 10, "created_at"), None)
        assert [job["name"] for job in answer["data"]] == ["mine"]
        with pytest.raises(NotFound, match="Workspace 'research' not found"):
            self.listing(gateway, access).jobs("research", PageRequest(1, 10, "created_at"), None)

    def test_steps_of_one_job_and_of_all(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("job-1", spec_of("one"))
        gateway.add("job-2", spec_of("two"))
        listing, request = self.listing(gateway, access), PageRequest(1, 25, "created_at")
        answer = listing.steps("default", "job-1", request, StepFilter())
        assert ([step["name"] for step in answer["data"]], answer["filter"]) == (["one"], {"job": "job-1"})
        assert "error_details" not in answer["data"][0]
        everything = listing.steps("default", "-", request, StepFilter())
        assert ([step["name"] for step in everything["data"]], "filter" in everything) == (["one", "two"], False)
        none = listing.steps("default", "-", request, StepFilter(statuses=(Status.ERROR,)))
        assert none["data"] == []
        assert listing.steps("default", "nope", request, StepFilter())["data"] == []
        with pytest.raises(NotFound, match="Workspace 'nope' not found"):
            listing.steps("nope", "job-1", request, StepFilter())

    def test_steps_of_named_jobs_read_no_others(
        self, gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = [gateway.add("job-1", spec_of("one")), gateway.add("job-2", spec_of("two")), gateway.add("job-3")]
        gateway.add("job-1", spec_of("there"), "research")
        monkeypatch.setattr(gateway, "runs_of", lambda workspace: pytest.fail("the whole workspace was read"))
        listing, request = self.listing(gateway, access), PageRequest(1, 25, "created_at")
        identifier = names.job_id(names.run_key(rows[1].dag_id, rows[1].run_id, rows[1].run_after))

        def steps(workspace: str, job: str, *jobs: str) -> list[str]:
            return [step["name"] for step in listing.steps(workspace, job, request, StepFilter(jobs))["data"]]

        assert steps("default", identifier) == ["two"]
        assert steps("default", "-", "job-1", "job-2", identifier, "nope") == ["one", "two"]
        assert steps("default", "job-1", "job-2") == []
        assert steps("-", "job-1") == ["one", "there"]

    def test_steps_of_many_named_jobs_are_read_at_once(
        self, gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(30):
            gateway.add(f"job-{number}", spec_of(f"step-{number}"))
        gateway.add("job-2", spec_of("by-hand"), run_id="job-2~2")
        gateway.add("job-2", spec_of("there"), "research")
        gateway.add("job-4", spec_of("by-hand"), run_id="job-4~2")
        gateway.rows[3] = replace(gateway.rows[3], deleted=True)
        hidden = gateway.rows[4]
        gateway.denied = {(Right.READ, hidden.dag_id)}
        by_id = gateway.rows[6]
        identifier = names.job_id(names.run_key(by_id.dag_id, by_id.run_id, by_id.run_after))
        monkeypatch.setattr(gateway, "runs_named", lambda *_: pytest.fail("jobs were asked for one by one"))
        listing, request = self.listing(gateway, access), PageRequest(1, 25, "created_at")

        def steps(workspace: str, *jobs: str) -> list[str]:
            asked = StepFilter(jobs + tuple(f"none-{number}" for number in range(100)))
            return [step["name"] for step in listing.steps(workspace, "-", request, asked)["data"]]

        assert steps("default", "job-1", "job-2", "job-3", "job-4", "job-1", identifier, "job-6") == [
            "step-1",
            "step-2",
            "step-6",
        ]
        assert steps("-", "job-2") == ["step-2", "there"]
        assert steps("default") == []

    def test_only_runs_that_never_began_are_read_to_count(
        self, gateway: FakeGateway, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a step wrote down says that its conf is a job; a mark in Airflow does not."""
        for name in ("begun", "by-hand", "waiting", "failed"):
            gateway.add(name)
        for pk, state in ((1, "success"), (2, "success"), (4, "failed")):
            gateway.run_state(gateway.rows[pk - 1], state)
        for pk in (1, 4):
            gateway.step(gateway.rows[pk - 1], "train", "success", record(Status.COMPLETED))
        gateway.rows[1] = replace(gateway.rows[1], conf={"source": "by hand"})
        read: list[str] = []
        with_conf = gateway.with_conf
        monkeypatch.setattr(
            gateway, "with_conf", lambda rows: read.extend(row.run_id for row in rows) or with_conf(rows)
        )
        listing = self.listing(gateway, access)
        answer = listing.jobs("default", PageRequest(9, 10, "created_at"), None)
        assert (answer["pagination"]["total_results"], read) == (3, ["by-hand", "waiting"])
        read.clear()
        answer = listing.jobs("default", PageRequest(9, 10, "created_at"), parse_filter('{"name": "waiting"}'))
        assert (answer["pagination"]["total_results"], read) == (1, ["waiting"])

    def test_no_step_has_its_cleanup_pending(self, gateway: FakeGateway, access: Access) -> None:
        gateway.add("job-1")
        listing, request = self.listing(gateway, access), PageRequest(1, 25, "created_at")
        for pending, count in ((True, 0), (False, 1), (None, 1)):
            answer = listing.steps("default", "job-1", request, StepFilter(pending=pending))
            assert len(answer["data"]) == count
            assert answer["filter"].get("task_cleanup_pending") is pending


def _identity(gateway: FakeGateway) -> tuple[Any, Any, Any]:
    row = gateway.rows[0]
    return row.dag_id, row.run_id, row.run_after
