from __future__ import annotations

import sys
from types import ModuleType

import pytest

from nemo_airflow_provider.backends.docker import nvml
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


class LibraryError(Exception):
    """What the library says in place of an answer."""


class Library(ModuleType):
    """NVIDIA's library on a host of three GPUs.

    :param fails: functions that fail, for a GPU's index, or None where they are not of one
    """

    NVMLError = LibraryError

    def __init__(self, *fails: tuple[str, int | None]) -> None:
        super().__init__("pynvml")
        self._fails = fails

    def _ask(self, function: str, index: int | None = None) -> None:
        if (function, index) in self._fails:
            raise LibraryError(function)

    def nvmlInit(self) -> None:
        self._ask("init")

    def nvmlShutdown(self) -> None:
        self._ask("shutdown")

    def nvmlDeviceGetCount(self) -> int:
        self._ask("count")
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._ask("handle", index)
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        self._ask("name", handle)
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        self._ask("uuid", handle)
        return f"GPU-{handle}".encode()


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        ([], devices(0, 1, 2)),
        # One that has fallen off the bus takes none of the others away.
        ([("handle", 1)], devices(0, 2)),
        ([("name", 0)], devices(1, 2)),
        ([("uuid", 2), ("handle", 0)], devices(1)),
        ([("handle", index) for index in range(3)], ()),
        ([("shutdown", None)], devices(0, 1, 2)),
        ([("count", None)], None),
        ([("init", None)], None),
    ],
)
def test_what_the_host_has(
    fails: list[tuple[str, int | None]], expected: tuple[Device, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Library(*fails))
    assert nvml.devices() == expected


def test_a_host_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.devices() is None
