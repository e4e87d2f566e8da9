from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.docker.nvml import Device, pool


def devices(*ids: int) -> tuple[Device, ...]:
    return tuple(Device(each, "NVIDIA H200", f"GPU-{each}") for each in ids)


@pytest.mark.parametrize(
    ("reserved", "found", "expected"),
    [
        (None, devices(0, 1, 2), devices(0, 1, 2)),
        ((0, 2), devices(0, 1, 2), devices(0, 2)),
        ((2, 0), devices(0, 1, 2), devices(0, 2)),
        # Of what is reserved only what the host has.
        ((1, 7), devices(0, 1), devices(1)),
        ((), devices(0, 1), ()),
        (None, (), ()),
        ((0,), (), ()),
        # Where nobody can tell, what is named is believed.
        ((0, 3), None, (Device(0), Device(3))),
        (None, None, ()),
        ((), None, ()),
    ],
)
def test_what_jobs_may_use(
    reserved: tuple[int, ...] | None, found: tuple[Device, ...] | None, expected: tuple[Device, ...]
) -> None:
    assert pool(reserved, found) == expected
