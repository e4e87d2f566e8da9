"""GPUs that are not there, up to where the engine would have to hand them out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Phase, Workload
from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.errors import CapacityError, StartError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.docker.dock import Dock


def wanting(dock: Dock, gpus: int, key: WorkloadKey | None = None) -> Workload:
    executor = {"provider": "gpu", "resources": {"num_gpus": gpus}}
    return dock.task("true", key=key, executor=executor)


def holding(dock: Dock, *gpus: int) -> str:
    """A container of somebody else's, which has GPUs."""
    own = {labels.GPUS: ",".join(map(str, gpus))}
    made: str = dock.client.create_container_from_config({"Image": dock.image, "Cmd": ["sleep", "600"], "Labels": own})[
        "Id"
    ]
    return made


def test_no_two_processes_are_given_one_gpu(dock: Dock) -> None:
    """Eight processes ask for one or two of three GPUs, again and again; all of them get theirs."""
    command = [sys.executable, "-m", "tests.docker.taker", dock.access.url, str(dock.directory)]
    takers = [
        subprocess.Popen([*command, str(1 + number % 2), "6"], stdout=subprocess.PIPE, text=True) for number in range(8)
    ]
    told = [taker.communicate(timeout=300)[0].split("\n") for taker in takers]
    assert [taker.returncode for taker in takers] == [0] * 8
    assert told == [[""] * 7] * 8


def test_a_step_waits_for_gpus_and_goes_as_far_as_the_engine(dock: Dock) -> None:
    backend = dock.backend(site={"gpu_device_ids": (0, 1)})
    other = holding(dock, 0)
    try:
        with pytest.raises(CapacityError, match=r"Requested 2, available 1 out of 2 total\.$"):
            backend.submit(wanting(dock, 2))
        # Who comes later waits behind it, though there is a GPU for it.
        later = dock.backend(site={"gpu_device_ids": (0, 1)})
        with pytest.raises(CapacityError, match="1 request came before it"):
            later.submit(wanting(dock, 1, dock.key("later")))
        with pytest.raises(StartError, match=r"Requested 3, available 1 out of 2 total\.$"):
            backend.submit(wanting(dock, 3, dock.key("large")))
    finally:
        dock.client.remove_container(other, force=True)
    with pytest.raises(StartError, match="could not select device driver"):
        backend.submit(wanting(dock, 2))
    # Nothing is left of it, so the next in the line gets as far.
    assert backend.observe(dock.key()).phase is Phase.ABSENT
    with pytest.raises(StartError, match="could not select device driver"):
        later.submit(wanting(dock, 1, dock.key("later")))
    assert backend.gpus().waiters == ()


def test_who_is_stopped_while_it_waits_waits_no_longer(dock: Dock) -> None:
    backend, later = (dock.backend(site={"gpu_device_ids": (0,)}) for _ in range(2))
    other = holding(dock, 0)
    try:
        for each, name in ((backend, "train"), (later, "later")):
            with pytest.raises(CapacityError, match="Not enough GPUs available"):
                each.submit(wanting(dock, 1, dock.key(name)))
        assert [waiter.user.step for waiter in later.gpus().waiters] == ["train", "later"]
        backend.stop(dock.key(), 0)
        assert [waiter.user.step for waiter in later.gpus().waiters] == ["later"]
    finally:
        dock.client.remove_container(other, force=True)


@pytest.mark.parametrize("how", ["ended", "removed"])
def test_a_gpu_is_free_with_the_end_of_its_container(dock: Dock, how: str) -> None:
    backend = dock.backend(site={"gpu_device_ids": (0,)})
    other = holding(dock, 0)
    dock.client.start(other)
    try:
        with pytest.raises(CapacityError):
            backend.submit(wanting(dock, 1))
        assert [_state(each) for each in backend.gpus().devices] == [("0", True)]
        if how == "ended":
            dock.client.kill(other)
            dock.client.wait(other)
        else:
            dock.client.remove_container(other, force=True)
        assert [_state(each) for each in backend.gpus().devices] == [("0", False)]
        with pytest.raises(StartError, match="could not select device driver"):
            backend.submit(wanting(dock, 1))
    finally:
        if how == "ended":
            dock.client.remove_container(other, force=True)


def _state(device: Any) -> tuple[str, bool]:
    return device.id, device.taken
