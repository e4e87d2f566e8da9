from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.engine import DockerEngine
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names
from tests.unit.backends.docker.make import KEY, workload


@dataclass
class Client:
    """The engine's client, as far as it is asked here."""

    containers: dict[str, dict[str, str] | None] = field(default_factory=dict)
    asked: int = 0
    about: dict[str, str] = field(default_factory=lambda: {"Name": "host", "ID": "ABCD:EFGH"})

    def info(self) -> dict[str, str]:
        self.asked += 1
        return self.about

    def inspect_container(self, name: str) -> dict[str, Any]:
        from docker.errors import NotFound

        if name not in self.containers:
            raise NotFound(f"No such container: {name}")
        return {"Id": name, "Config": {"Labels": self.containers[name]}}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(Access, "client", lambda _: made)
    return made


def test_an_engine_is_who_it_is(client: Client) -> None:
    engine = DockerEngine(Access)
    assert [engine.identity(), engine.identity()] == ["host/ABCD:EFGH"] * 2
    assert client.asked == 1


@pytest.mark.parametrize(
    ("found", "is_ours"),
    [
        (labels.of_workload(workload(), "docker"), True),
        ({**labels.of_workload(workload(), "docker"), "nhx.nvidia.com/job_run_key": "other"}, False),
        ({"nhx.nvidia.com/managed_by": "jobs-controller"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_container_of_that_name_may_be_somebody_elses(
    client: Client, found: dict[str, str] | None, is_ours: bool
) -> None:
    client.containers[names.engine_name(KEY)] = found
    inspected = DockerEngine(Access).inspect(cast("Any", client), KEY)
    assert (inspected is not None) is is_ours


def test_a_container_that_is_not_there(client: Client) -> None:
    assert DockerEngine(Access).inspect(cast("Any", client), KEY) is None


def test_what_the_engine_refuses_is_told_in_its_words(client: Client) -> None:
    from docker.errors import APIError

    engine = DockerEngine(lambda: Access("tcp://engine:2375"))
    with pytest.raises(BackendError) as told, engine.asked() as asked:
        assert asked is cast("Any", client)
        raise APIError("500", explanation="no room\n  for that")
    assert str(told.value) == "The Docker engine at tcp://engine:2375 refuses: no room for that"


def test_a_way_that_was_closed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[BackendError | Client] = [BackendError("closed"), Client()]

    def client(_: Access) -> Client:
        way = ways.pop(0)
        if isinstance(way, BackendError):
            raise way
        return way

    monkeypatch.setattr(Access, "client", client)
    engine = DockerEngine(Access)
    with pytest.raises(BackendError, match="closed"):
        engine.identity()
    assert engine.identity() == "host/ABCD:EFGH"


@pytest.mark.parametrize("about", [{"Name": "host"}, {"ID": "A:B"}, {"Name": "host", "ID": ""}, {}])
def test_an_engine_that_does_not_say_who_it_is(client: Client, about: dict[str, str]) -> None:
    client.about = about
    with pytest.raises(BackendError) as told:
        DockerEngine(lambda: Access("tcp://token@engine:2375")).identity()
    assert str(told.value) == (
        "The Docker engine at tcp://***@engine:2375 does not say who it is: its `docker info` has no Name or no ID."
    )


@pytest.mark.parametrize(
    ("words", "is_made_anew"),
    [
        ("client version 1.50 is too new. Maximum supported API version is 1.41", True),
        ("client version 1.41 is too old. Minimum supported API version is 1.44", True),
        ("no room for that", False),
    ],
)
def test_an_engine_of_another_version_is_asked_anew(
    monkeypatch: pytest.MonkeyPatch, words: str, is_made_anew: bool
) -> None:
    from docker.errors import APIError

    made: list[Client] = []
    monkeypatch.setattr(Access, "client", lambda _: made.append(Client()) or made[-1])
    engine = DockerEngine(Access)
    with pytest.raises(BackendError, match=words), engine.asked():
        raise APIError("400", explanation=words)
    assert engine.identity() == "host/ABCD:EFGH"
    assert len(made) == 1 + is_made_anew
