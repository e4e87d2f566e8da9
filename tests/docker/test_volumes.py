"""Storage of a step, of a job, and of the profile; and what is left of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.docker import labels, storage
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.backend import DockerBackend
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.contract.test_backend import end
from tests.docker.dock import STORAGE, Dock
from tests.stack import docker

STEP = {"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": STORAGE}


@pytest.fixture
def volume(dock: Dock) -> Iterator[str]:
    """Name of a volume that is not there."""
    name = f"nemo-test-{token_hex(4)}"
    yield name
    dock.clear()
    dock.client.remove_volume(name, force=True)


def mounts(volume: str, **more: object) -> dict[str, object]:
    return {"additional_volume_mounts": [{"volume_name": volume, "mount_path": "/more", **more}]}


def test_an_additional_volume_must_be_there(dock: Dock, volume: str) -> None:
    backend = dock.backend(storage=mounts(volume))
    with pytest.raises(StartError, match=f"^Additional volume {volume} not found: make it"):
        backend.submit(dock.workload("true"))
    assert (backend.observe(dock.key()).phase, dock.containers()) == (Phase.ABSENT, [])
    dock.client.create_volume(volume)
    dock.output(backend, dock.workload("echo kept > /more/file"))
    backend.cleanup(dock.key())
    assert dock.output(backend, dock.workload("cat /more/file", dock.key(start=1))) == "kept\n"


def test_an_additional_volume_may_be_made(dock: Dock, volume: str) -> None:
    backend = dock.backend(storage=mounts(volume, allow_create_volume=True))
    assert dock.output(backend, dock.workload("echo new > /more/file; cat /more/file")) == "new\n"
    assert dock.client.inspect_volume(volume)["Driver"] == "local"


def test_volumes_of_a_container_go_with_it(dock: Dock) -> None:
    backend = dock.backend()
    dock.output(backend, dock.workload("true"))
    assert len(dock.volumes()) == 2
    backend.cleanup(dock.key())
    assert (dock.containers(), dock.volumes()) == ([], [])


def test_job_storage_is_shared_by_the_steps_of_a_run_alone(dock: Dock) -> None:
    backend = dock.backend()
    other = replace(dock.key(), run_key=token_hex(8))
    fill = f"echo mine > {STORAGE}/file; mkdir {STORAGE}/folder; chmod 0 {STORAGE}/folder"
    dock.output(backend, dock.workload(fill, step=STEP))
    assert dock.output(backend, dock.workload(f"cat {STORAGE}/file", dock.key("evaluate"), step=STEP)) == "mine\n"
    assert dock.output(backend, dock.workload(f"ls -A {STORAGE}", other, step=STEP)) == ""
    assert _remove(backend, dock.key())
    again = dock.output(backend, dock.workload(f"ls -A {STORAGE}", dock.key(start=1), step=STEP))
    assert again == "", "a removed job's storage is gone"


@pytest.fixture
def image(dock: Dock) -> Iterator[str]:
    """The name of an image that there is not yet."""
    name = f"nemo-test/made-{token_hex(4)}:1"
    yield name
    dock.clear()
    dock.client.remove_image(name, force=True)


def test_volumes_of_an_image_go_with_the_containers_of_its_steps(dock: Dock, volume: str, image: str) -> None:
    """Also that of the one that stands for the job's storage; the volume with that storage stays."""
    docker.make_image(dock.client, image, "VOLUME /of-the-image")
    backend = dock.backend(storage={"volume_name": volume})
    script = ("/bin/sh", "-c", f"echo mine > {STORAGE}/file")
    dock.output(backend, dock.task(*script, image=image, step=STEP))
    mounted = {each["Name"] for listed in dock.containers() for each in listed["Mounts"] if each.get("Name")}
    others = mounted - {volume} - set(dock.volumes())
    assert len(others) == 2, "that of the step and that of the keeper"
    assert _remove(backend, dock.key())
    left = {each["Name"] for each in dock.client.volumes()["Volumes"]}
    assert left & (mounted | {volume}) == {volume}


def test_storage_that_takes_long_to_remove_is_removed_later(
    dock: Dock, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dock.client.create_container_from_config({"Image": dock.image, "Cmd": ["true"]})["Id"]
    dock.client.put_archive(made, "/", packed([Entry("/slow/rm", 0o755, b"#!/bin/sh\nsleep 600\n")]))
    repository, _, tag = image.rpartition(":")
    dock.client.commit(made, repository, tag, changes=["ENV PATH=/slow:/bin"])
    dock.client.remove_container(made)
    dock.output(dock.backend(), dock.workload("true", step=STEP))
    monkeypatch.setattr(storage, "_REMOVAL_SECONDS", 1)
    with pytest.raises(BackendError) as told:
        _remove(dock.backend(storage={"volume_permissions_image": image}), dock.key())
    assert str(told.value) == (
        "Job storage of run contract cannot be removed with storage.volume_permissions_image: its rm took longer than "
        "1 s; the next sweep goes on with it."
    )
    [left] = dock.containers()
    assert left["Labels"][labels.TYPE] == labels.STORAGE
    monkeypatch.undo()
    assert _remove(dock.backend(), dock.key())
    assert dock.containers() == []


def _remove(backend: DockerBackend, key: WorkloadKey) -> bool:
    return backend.remove_job(key.workspace, key.run_id, key.run_key)


def test_a_profile_without_job_storage_says_so(dock: Dock) -> None:
    backend = dock.backend(storage={"volume_name": ""})
    with pytest.raises(StartError, match=r"Step 'train' asks for persistent job storage; its profile has storage\."):
        backend.submit(dock.workload("true", step=STEP))
    assert dock.containers() == []


def test_leftovers_are_held_and_removed(dock: Dock) -> None:
    """A container removed by hand leaves volumes; one that was never started, itself."""
    backend = dock.backend()
    dock.output(backend, dock.workload("true"))
    dock.client.remove_container(dock.inspect()["Id"])
    never = dock.key("never")
    backend.submit(dock.workload("true", never))
    end(dock, backend, never)
    details = dock.inspect(never)
    dock.client.remove_container(details["Id"], v=True)
    dock.client.create_container_from_config(
        {"Image": dock.image, "Cmd": ["true"], "Labels": details["Config"]["Labels"]}, details["Name"].lstrip("/")
    )
    assert [backend.observe(key).phase for key in (dock.key(), never)] == [Phase.ABSENT, Phase.PENDING]
    [held] = backend.held_jobs(dock.installation)
    assert (held.workloads, held.run_key) == ((never,), dock.run_key)
    assert _remove(backend, never)
    assert (dock.containers(), dock.volumes(), list(backend.held_jobs(dock.installation))) == ([], [], [])


def test_a_volume_alone_makes_a_job_held(dock: Dock) -> None:
    backend = dock.backend()
    dock.output(backend, dock.workload("true"))
    dock.client.remove_container(dock.inspect()["Id"])
    [held] = backend.held_jobs(dock.installation)
    assert (held.run_id, held.run_key, held.workloads) == ("contract", dock.run_key, ())
    assert _remove(backend, dock.key())
    assert (dock.volumes(), list(backend.held_jobs(dock.installation))) == ([], [])


def test_a_volume_that_others_use_does_not_keep_a_job_from_being_removed_later(dock: Dock) -> None:
    backend = dock.backend()
    dock.output(backend, dock.workload("true"))
    dock.client.remove_container(dock.inspect()["Id"])
    used = dock.volumes()[0]
    mount = {"Type": "volume", "Source": used, "Target": "/x"}
    body = {"Image": dock.image, "Cmd": ["true"], "HostConfig": {"Mounts": [mount]}}
    user = dock.client.create_container_from_config(body)["Id"]
    try:
        with pytest.raises(BackendError, match="volume is in use"):
            _remove(backend, dock.key())
    finally:
        dock.client.remove_container(user)
    assert _remove(backend, dock.key())
    assert dock.volumes() == []
