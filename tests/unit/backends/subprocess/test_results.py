"""A file that a workload leaves is handed back; what leads elsewhere, or is no file, is not."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.subprocess.environment import SCRATCH
from tests.unit.backends.subprocess.host import Host, key


def test_a_file_is_read_as_far_as_is_asked(host: Host) -> None:
    host.shell(f'cd "${SCRATCH}"; mkdir out; printf 0123456789 > out/result.txt; : > empty')
    host.end()
    assert host.backend.read_file(key(), "out/result.txt", 100) == b"0123456789"
    assert host.backend.read_file(key(), "./out/result.txt", 4) == b"0123"
    assert host.backend.read_file(key(), "empty", 4) == b""


@pytest.mark.parametrize(
    "make",
    [
        ":",
        "mkdir result",
        "mkfifo result",
        "ln -s /etc/passwd result",
        "echo 1 > ../elsewhere; ln -s ../elsewhere result",
        "cd ..; rm -r scratch; ln -s /etc scratch",
    ],
)
def test_what_is_no_file_of_the_workload_is_none(host: Host, make: str) -> None:
    host.shell(f'cd "${SCRATCH}"; {make}')
    host.end()
    assert host.backend.read_file(key(), "result", 100) is None
    assert host.backend.read_file(key(), "passwd", 100) is None
    assert host.backend.read_file(key(start=1), "result", 100) is None


@pytest.mark.parametrize("path", ["x" * 256, f"{'x' * 256}/result", "/".join(["x"] * 3000)])
def test_what_no_file_can_be_called_is_none(host: Host, path: str) -> None:
    host.shell("true")
    host.end()
    assert host.backend.read_file(key(), path, 100) is None
