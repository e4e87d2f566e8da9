"""How a container mounts the storage of its job, for engines of every age."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.docker import labels, storage
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from tests.unit.backends.docker.make import KEY


@dataclass
class Engine:
    """An engine that takes what it is given."""

    api_version: str
    volume: dict[str, Any] = field(default_factory=lambda: {"Driver": "local", "Mountpoint": "/lib/v/_data"})
    made: dict[str, Any] = field(default_factory=dict)
    unpacked: list[tuple[str, int]] = field(default_factory=list)

    def create_container_from_config(self, body: dict[str, Any], name: str) -> dict[str, Any]:
        self.made[name] = body
        return {"Id": name}

    def inspect_container(self, name: str) -> dict[str, Any]:
        return {"Id": name, "Config": self.made[name]}

    def put_archive(self, name: str, path: str, data: bytes) -> bool:
        assert (name in self.made, path) == (True, "/")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            self.unpacked += [(f"/{member.name}", member.mode) for member in archive]
        return True

    def inspect_volume(self, name: str) -> dict[str, Any]:
        assert name == "keep"
        return self.volume


def mounted(engine: Engine) -> dict[str, Any]:
    return storage.mount(cast("Any", engine), "keep", KEY, "home", "busybox:1", "/mine")


DIRECTORY = f"jobs/team-a/{KEY.run_id}.3xYzRunKey"


@pytest.mark.parametrize("version", ["1.45", "1.52", "2.0"])
def test_an_engine_that_mounts_a_part_of_a_volume(version: str) -> None:
    expected = {"Type": "volume", "Source": "keep", "Target": "/mine", "VolumeOptions": {"Subpath": DIRECTORY}}
    assert mounted(Engine(version)) == expected


@pytest.mark.parametrize("version", ["1.41", "1.44", "1.9"])
@pytest.mark.parametrize("options", [None, {}])
def test_an_older_engine(version: str, options: dict[str, str] | None) -> None:
    engine = Engine(version, {"Driver": "local", "Mountpoint": "/lib/v/_data", "Options": options})
    assert mounted(engine) == {"Type": "bind", "Source": f"/lib/v/_data/{DIRECTORY}", "Target": "/mine"}


@pytest.mark.parametrize("volume", [{"Driver": "nfs"}, {"Driver": "local", "Options": {"type": "nfs", "o": "addr=x"}}])
def test_an_older_engine_and_a_volume_of_another_host(volume: dict[str, Any]) -> None:
    with pytest.raises(StartError) as told:
        mounted(Engine("1.44", volume))
    assert str(told.value) == (
        "Volume 'keep' is not a plain directory of the engine's host; to give a job a part of it needs "
        "Docker 26 or newer."
    )


def test_the_directory_is_made_through_a_container_that_never_runs() -> None:
    engine = Engine("1.45")
    mounted(engine)
    [(name, body)] = engine.made.items()
    assert name == names.storage_name(KEY.job, KEY.run_key)
    assert body["Labels"] == labels.of_run("home", "team-a", KEY.run_id, "3xYzRunKey", labels.STORAGE)
    inside = body["HostConfig"]["Mounts"][0]["Target"]
    assert engine.unpacked == [
        (f"{inside}/jobs", 0o755),
        (f"{inside}/jobs/team-a", 0o755),
        (f"{inside}/{DIRECTORY}", 0o777),
    ]


def test_runs_of_one_name_do_not_share_it() -> None:
    keys = [WorkloadKey("w", run_id, key, "s", 0, 0) for run_id in ("a", "a~2") for key in ("k", "l")]
    assert len({storage.directory_of(key.workspace, key.run_id, key.run_key) for key in keys}) == 4
