"""What `SupportsResultFile` promises, asked of every backend that has the power."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.base import Backend
from nemo_airflow_provider.backends.powers import SupportsResultFile
from tests.contract.harness import Harness
from tests.contract.test_backend import end

INSIDE = 'cd "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"'


@pytest.fixture
def reading(backend: Backend) -> SupportsResultFile:
    if not isinstance(backend, SupportsResultFile):
        pytest.skip("it lacks the power to hand back a file")
    return backend


def test_a_file_is_read_as_far_as_is_asked(engine: Harness, backend: Backend, reading: SupportsResultFile) -> None:
    backend.submit(engine.workload(f"{INSIDE} && mkdir out && printf 0123456789 > out/result && : > empty"))
    end(engine, backend)
    key = engine.key()
    assert reading.read_file(key, "out/result", 100) == b"0123456789"
    assert reading.read_file(key, "out/result", 4) == b"0123"
    assert reading.read_file(key, "empty", 4) == b""


@pytest.mark.parametrize("make", [":", "mkdir result", "mkfifo result", "ln -s /etc/passwd result"])
def test_what_is_no_file_of_the_workload_is_none(
    engine: Harness, backend: Backend, reading: SupportsResultFile, make: str
) -> None:
    backend.submit(engine.workload(f"{INSIDE} && {make}"))
    end(engine, backend)
    assert reading.read_file(engine.key(), "result", 100) is None
    assert reading.read_file(engine.key(start=1), "result", 100) is None
