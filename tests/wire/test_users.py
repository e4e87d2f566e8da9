"""Who may do what: Airflow's users, with and without roles, and headers that are no identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.stack import AirflowStack
from tests.wire.jobs import API, LONG, Jobs, answered, body, fresh, refused
from tests.wire.upstream import Client, ClientError, Command, unwrapped

As = Callable[[str | None], Jobs]


@pytest.fixture(scope="module")
def clients(users_stack: AirflowStack) -> Iterator[dict[str | None, httpx.Client]]:
    """One HTTP client for each user, and one for nobody."""
    opened = {name: users_stack.client(name) for name in (None, "viewer", "user", "admin", "outsider")}
    yield opened
    for client in opened.values():
        client.close()


@pytest.fixture(scope="module")
def as_user(clients: dict[str | None, httpx.Client]) -> As:
    """The default workspace's jobs as a user sees them."""
    return lambda name: Jobs(clients[name])


@pytest.fixture(scope="module")
def job(as_user: As) -> str:
    """A running job of `user`."""
    name = fresh("owned")
    as_user("user").create(name, LONG)
    as_user("user").wait_for_lines(name, 1)
    return name


def calls(jobs: Jobs, name: str) -> dict[str, httpx.Response]:
    """Every read of a job."""
    paths = {"job": (name,), "status": (name, "status"), "logs": (name, "logs"), "steps": (name, "steps")}
    return {"list": jobs.get(), **{label: jobs.get(*path) for label, path in paths.items()}}


class TestNobody:
    def test_without_a_token_everything_is_401(self, as_user: As, job: str) -> None:
        nobody = as_user(None)
        answers = calls(nobody, job) | {
            "profiles": nobody.http.get(f"{API}/execution-profiles"),
            "gpus": nobody.http.get(f"{API}/gpus"),
            "create": nobody.post(body(fresh(), "true")),
            "nonsense": nobody.post({}),
            "cancel": nobody.http.post(nobody.url(job, "cancel")),
            "delete": nobody.http.delete(nobody.url(job)),
        }
        for answer in answers.values():
            assert refused(answer, 401)

    @pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
    def test_documentation_is_as_open_as_airflows_own(self, as_user: As, path: str) -> None:
        http = as_user(None).http
        assert http.get(f"/apis/jobs{path}").status_code == http.get(path).status_code == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": "Bearer service:jobs"},
            {"Authorization": "Basic YWRtaW46YWRtaW4="},
            {"X-NHX-Principal-Id": "service:jobs"},
            {"X-NHX-Principal-Id": "admin", "X-NHX-Principal-On-Behalf-Of": "admin"},
            {"X-NHX-Principal": '{"principal_id": "admin"}'},
        ],
    )
    def test_what_upstreams_services_say_is_no_identity(self, as_user: As, job: str, headers: dict[str, str]) -> None:
        nobody = as_user(None)
        answer = nobody.http.get(nobody.url(job), headers=headers)
        # Airflow calls a token that is none of its own forbidden.
        assert refused(answer, 403 if headers.get("Authorization", "").startswith("Bearer") else 401)


class TestViewer:
    def test_reads_everything(self, as_user: As, job: str) -> None:
        for answer in calls(as_user("viewer"), job).values():
            answered(answer)
        assert as_user("viewer").lines(job) == ["begun"]
        answered(as_user("viewer").http.get(f"{API}/execution-profiles"))
        gpus = answered(as_user("viewer").http.get(f"{API}/gpus"))
        assert gpus["engines"] == []
        assert "[nemo] probe_engines" in gpus["note"]

    @pytest.mark.parametrize("headers", [{}, {"X-NHX-Principal-Id": "admin"}])
    def test_changes_nothing(self, as_user: As, job: str, headers: dict[str, str]) -> None:
        viewer = as_user("viewer")
        answers = [
            viewer.http.post(viewer.url(), json=body(fresh(), "true"), headers=headers),
            viewer.http.post(viewer.url(job, "cancel"), headers=headers),
            viewer.http.delete(viewer.url(job), headers=headers),
        ]
        for answer, verb in zip(answers, ("create", "change", "delete"), strict=True):
            assert refused(answer, 403).startswith(f"You may read workspace 'default' but not {verb} jobs")
        assert viewer.status(job)["status"] == "active"

    def test_sees_what_is_not_there(self, as_user: As) -> None:
        viewer = as_user("viewer")
        assert "not found" in refused(viewer.http.post(viewer.url("nope", "cancel")), 404)


class TestOutsider:
    def test_the_workspace_does_not_exist_for_it(self, as_user: As, job: str) -> None:
        outsider = as_user("outsider")
        answers = calls(outsider, job) | {
            "cancel": outsider.http.post(outsider.url(job, "cancel")),
            "delete": outsider.http.delete(outsider.url(job)),
        }
        for answer in answers.values():
            assert refused(answer, 404) == "Workspace 'default' not found"
        assert refused(outsider.post(body(fresh(), "true")), 422) == (
            "Workspace 'default' does not exist. Please create the workspace first."
        )
        assert answered(Jobs(outsider.http, "-").get())["data"] == []
        answered(outsider.http.get(f"{API}/execution-profiles"))


class TestUser:
    def test_runs_jobs_in_both_workspaces_under_one_name(
        self, as_user: As, clients: dict[str | None, httpx.Client]
    ) -> None:
        name = fresh()
        here, there = as_user("user"), Jobs(clients["user"], "research")
        for place in (here, there):
            place.create(name, f"echo {place.workspace} $NEMO_JOB_WORKSPACE $NHX_PRINCIPAL")
        for place in (here, there):
            place.wait(name, "completed")
            assert place.lines(name) == [f'{place.workspace} {place.workspace} {{"principal_id": "user"}}']
        assert here.job(name)["id"] != there.job(name)["id"]
        refused(there.get(here.job(name)["id"]), 404)
        everywhere = Jobs(clients["viewer"], "-").list(filter=f'{{"name": "{name}"}}')
        assert {row["workspace"] for row in everywhere["data"]} == {"default", "research"}
        there.delete(name)
        assert here.job(name)["status"] == "completed"

    def test_who_cancelled_is_told(self, as_user: As, job: str) -> None:
        assert as_user("admin").cancel(job)["status_details"]["cancelled_by"] == "admin"
        as_user("user").wait(job, "cancelled")
        step = answered(as_user("user").get(job, "steps", "one"))
        assert (step["status"], step["created_by"]) == ("cancelled", "user")


class TestUpstream:
    def test_the_library_with_a_token(
        self, users_stack: AirflowStack, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        name = fresh()
        with Client(
            upstream_nemo, users_stack.url, tmp_path_factory.mktemp("user"), users_stack.token("user")
        ) as client:
            assert client("create_job", body=body(name, "echo hi"))["name"] == name
            events = client("watch", name=name, poll_interval=0.2)
            assert [event["message"] for event in events if event["kind"] == "log"] == ["hi"]
            profiles = client("get_execution_profiles")
        by_name = {(item["provider"], item["profile"]): item for item in profiles}
        assert {item["backend"] for item in profiles} == {
            "subprocess",
            "docker",
            "kubernetes_job",
            "volcano_job",
        }
        volumes = by_name["cpu", "wire-kubernetes"]["config"]["storage"]["additional_volumes"]
        assert [volume["name"] for volume in volumes] == ["claim", "scratch"]
        mounts = by_name["cpu", "wire-kubernetes"]["config"]["storage"]["additional_volume_mounts"]
        assert [mount["name"] for mount in mounts] == ["claim", "scratch"]

    def test_the_library_without_a_token(
        self, users_stack: AirflowStack, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        home = tmp_path_factory.mktemp("nobody")
        with Client(upstream_nemo, users_stack.url, home) as client, pytest.raises(ClientError) as raised:
            client("get_execution_profiles")
        assert (raised.value.kind, raised.value.status) == ("AuthenticationError", 401)

    def test_the_command_line(
        self, users_stack: AirflowStack, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory, as_user: As
    ) -> None:
        nemo = Command(upstream_nemo, users_stack.url, tmp_path_factory.mktemp("cli"))
        viewer = users_stack.token("viewer")
        profiles = nemo.start("list-execution-profiles", "-f", "json", NHX_ACCESS_TOKEN=viewer)
        create = nemo.start("create", fresh(), "--input-data", str(body(None, "true")), NHX_ACCESS_TOKEN=viewer)
        nobody = nemo("list")
        assert (nobody.code, nobody.err.startswith("Authentication error: (401)")) == (3, True), nobody
        told = create.told()
        assert (told.code, unwrapped(told.err).startswith("Permission denied: (403)")) == (3, True), told
        listed = {item["profile"] for item in profiles.told().data}
        assert {"default", "wire-docker", "wire-kubernetes", "wire-volcano"} <= listed

    def test_profiles_cannot_be_used_where_their_backend_is_not_provided(self, as_user: As) -> None:
        wanted = {"provider": "gpu_distributed", "profile": "wire-volcano", "container": {}}
        steps = [{"name": "one", "executor": wanted}]
        answer = as_user("user").post(body(fresh(), platform_spec={"steps": steps}))
        if answer.status_code == 201:
            pytest.skip("this installation provides the backend")
        assert refused(answer, 422) == (
            "Execution profile 'gpu_distributed/wire-volcano' in step 'one' needs backend 'volcano_job', which "
            "this installation does not provide. Install nemo-airflow-provider[kubernetes]."
        )
