"""What is said of an engine, from what it and the host say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nemo_airflow_provider.backends.docker.gpus import Lease
from nemo_airflow_provider.backends.docker.nvml import Device
from nemo_airflow_provider.backends.docker.reports import board, gpu_remarks, storage_remarks
from nemo_airflow_provider.backends.docker.tickets import Waiter
from nemo_airflow_provider.backends.powers import GpuDevice, GpuUser, GpuWaiter
from tests.unit.backends.docker.make import KEY

PLAIN = {"Name": "jobs", "Driver": "local", "Options": None}
REMOTE = {"Name": "jobs", "Driver": "local", "Options": {"type": "nfs"}}


class TestBoard:
    POOL = (Device(0, "H200", "GPU-a"), Device(1, "H200", "GPU-b"))

    def test_who_has_what(self) -> None:
        shown = board(self.POOL, [Lease("a", 5, (1,), KEY, "ours")], []).devices
        user = GpuUser("ours", KEY.workspace, KEY.job, KEY.step, KEY.task, 5.0)
        assert shown == (
            GpuDevice("0", "H200", "GPU-a"),
            GpuDevice("1", "H200", "GPU-b", taken=True, holder=user),
        )

    def test_a_container_that_is_not_ours_takes_a_gpu_all_the_same(self) -> None:
        assert board(self.POOL, [Lease("a", 5, (0,), None)], []).devices[0] == GpuDevice("0", "H200", "GPU-a", True)

    def test_of_two_containers_the_earlier_has_it(self) -> None:
        leases = [Lease("late", 6, (0,), None), Lease("early", 5, (0,), KEY)]
        holder = board(self.POOL, leases, []).devices[0].holder
        assert holder is not None
        assert holder.since == 5.0

    def test_what_a_container_has_beyond_the_pool(self) -> None:
        shown = board(self.POOL, [Lease("a", 5, (9, 3), None)], []).devices
        assert [(device.id, device.taken) for device in shown[2:]] == [("3", True), ("9", True)]

    def test_the_line(self) -> None:
        waiting = [Waiter("default", "a", "train", "task-a", 2, 1.0, "ours"), Waiter("x", "b", "s", "task-b", 1, 2.0)]
        assert board((), [], waiting).waiters == (
            GpuWaiter(GpuUser("ours", "default", "a", "train", "task-a", 1.0), 2),
            GpuWaiter(GpuUser("", "x", "b", "s", "task-b", 2.0), 1),
        )


@pytest.mark.parametrize(
    ("version", "volume", "fails"),
    [("1.41", None, False), ("1.41", PLAIN, False), ("1.41", REMOTE, True), ("1.45", REMOTE, False)],
)
def test_job_storage(version: str, volume: Mapping[str, Any] | None, fails: bool) -> None:
    remarks = list(storage_remarks(version, volume))
    assert [remark.fails_steps for remark in remarks] == [True] * fails
    for remark in remarks:
        assert "volume 'jobs'" in remark.message
        assert "API 1.45" in remark.remedy


@pytest.mark.parametrize(
    ("runtimes", "has_gpus", "fails"),
    [({"runc": {}, "nvidia": {}}, True, []), ({"runc": {}}, True, [False]), ({"nvidia": {}}, False, [False])],
)
def test_gpus(runtimes: Mapping[str, Any], has_gpus: bool, fails: list[bool]) -> None:
    remarks = list(gpu_remarks(runtimes, has_gpus=has_gpus))
    assert [remark.fails_steps for remark in remarks] == fails
