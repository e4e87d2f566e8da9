"""Who has the GPUs: names for who may read the job, a place in the line for everybody, an error for a silent engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_airflow_provider.api.app import create_app
from nemo_airflow_provider.backends.powers import GpuBoard, GpuDevice, GpuUser, GpuWaiter
from nemo_airflow_provider.backends.registry import BackendEntry
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.profiles import PlatformConfig, Profile, ProfileSet, load_profiles
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.engines import Engines
from nemo_airflow_provider.service.gateway import Right
from nemo_airflow_provider.service.gpus import ASKED_ELSEWHERE, GpuEngine, Gpus
from tests.unit.service.fakes import FakeGateway

OURS = "0123456789abcdef"
NOON = "2026-12-01T12:00:00.000000+00:00"
SECONDS = 1796126400.0
GPU = "{provider: gpu, profile: %s, config: {docker_conn_id: %s}}"
TEXT = f"jobs: {{executors: [{GPU % ('far', 'far')}, {GPU % ('farther', 'far')}, {GPU % ('gone', 'gone')}]}}"


class Boards(Engines):
    """Engines by the connection of their profiles; those that are not there do not answer."""

    def __init__(self, boards: dict[str, GpuBoard]) -> None:
        super().__init__()
        self._boards = boards

    def scope(self, profile: Profile, platform: PlatformConfig) -> str:
        return getattr(profile.config, "docker_conn_id", None) or "here"

    def gpus(self, profile: Profile, platform: PlatformConfig) -> GpuBoard:
        try:
            return self._boards[self.scope(profile, platform)]
        except KeyError:
            raise BackendError("No answer from the engine. Start it.") from None


def user(job: str, workspace: str = "default", installation: str = OURS) -> GpuUser:
    return GpuUser(installation, workspace, job, "train", "task-0123456789ab", SECONDS)


def board(*holders: GpuUser | None, waiters: tuple[GpuWaiter, ...] = ()) -> GpuBoard:
    devices = (GpuDevice(str(index), "H200", f"GPU-{index}", True, holder) for index, holder in enumerate(holders))
    return GpuBoard((*devices, GpuDevice("7")), waiters)


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileSet:
    monkeypatch.setattr(BackendEntry, "provided", property(lambda entry: entry.name in ("docker", "subprocess")))
    file = tmp_path / "jobs.yaml"
    file.write_text(TEXT)
    return load_profiles(file, environ={}, probe=None)


Asked = Callable[..., list[GpuEngine]]


@pytest.fixture
def asked(gateway: FakeGateway, access: Access, profiles: ProfileSet) -> Asked:
    """The engines that are shown, when these have these GPUs."""

    def ask(installation: str | None = OURS, **boards: GpuBoard) -> list[GpuEngine]:
        return Gpus(gateway, access, Boards(boards), installation).listing(profiles).engines

    return ask


def holder(engine: GpuEngine, index: int = 0) -> str | None:
    """The job that has a GPU, which is taken."""
    device = engine.devices[index]
    assert device.state == "taken"
    return device.holder.job if device.holder else None


def test_each_engine_is_shown_once_with_its_profiles(gateway: FakeGateway, asked: Asked) -> None:
    gateway.add("big")
    here, far, gone = asked(here=board(user("big")), far=board())
    assert [here.profiles, far.profiles, gone.profiles] == [["gpu/default"], ["gpu/far", "gpu/farther"], ["gpu/gone"]]
    taken, free = here.devices
    assert taken.model_dump() == {
        "id": "0",
        "name": "H200",
        "uuid": "GPU-0",
        "state": "taken",
        "holder": {"workspace": "default", "job": "big", "step": "train", "task": "task-0123456789ab", "since": NOON},
    }
    assert (free.id, free.state, free.holder) == ("7", "free", None)
    assert (gone.error, gone.devices) == ("No answer from the engine. Start it.", [])
    assert here.error is None


def test_the_line_in_its_order(gateway: FakeGateway, asked: Asked) -> None:
    gateway.add("big")
    waiters = (GpuWaiter(user("nobodys", "research", "another"), 1), GpuWaiter(user("big"), 2))
    first, second = asked(here=board(waiters=waiters))[0].waiters
    assert (first.position, first.gpus, first.since, first.workspace, first.job) == (1, 1, NOON, None, None)
    assert (second.position, second.gpus) == (2, 2)
    assert (second.workspace, second.job, second.step) == ("default", "big", "train")


class TestWhoMayKnow:
    def test_a_workspace_that_is_not_for_the_caller(self, gateway: FakeGateway, asked: Asked) -> None:
        gateway.add("theirs", workspace="research")
        assert holder(asked(here=board(user("theirs", "research")))[0]) == "theirs"
        gateway.denied.add((Right.READ, names.anchor_dag_id("research")))
        assert holder(asked(here=board(user("theirs", "research")))[0]) is None

    def test_a_shape_that_is_not_for_the_caller(self, gateway: FakeGateway, asked: Asked) -> None:
        row = gateway.add("hidden")
        gateway.denied.add((Right.READ, row.dag_id))
        assert holder(asked(here=board(user("hidden")))[0]) is None

    def test_a_job_that_was_deleted(self, gateway: FakeGateway, asked: Asked) -> None:
        gateway.add("old", deleted=True)
        assert holder(asked(here=board(user("old")))[0]) is None

    @pytest.mark.parametrize(("theirs", "ours"), [("fedcba9876543210", OURS), ("", OURS), ("", None)])
    def test_a_job_of_another_installation(
        self, gateway: FakeGateway, asked: Asked, theirs: str, ours: str | None
    ) -> None:
        gateway.add("same-name")
        assert holder(asked(ours, here=board(user("same-name", installation=theirs)))[0]) is None

    def test_a_container_of_somebody_else(self, asked: Asked) -> None:
        assert holder(asked(here=board(None))[0]) is None


def test_where_no_engine_may_be_asked(gateway: FakeGateway, access: Access, profiles: ProfileSet) -> None:
    listing = Gpus(gateway, access, None, OURS).listing(profiles)
    assert (listing.engines, listing.note) == ([], ASKED_ELSEWHERE)


def test_the_documentation_of_the_api_knows_the_answer() -> None:
    document = create_app().openapi()
    answer = document["paths"]["/v2/gpus"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/GpuListing"}
    assert document["components"]["schemas"]["Gpu"]["properties"]["state"]["enum"] == ["free", "taken"]
