from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase
from nemo_airflow_provider.model.names import WorkloadKey
from tests.contract.harness import HARNESSES, Harness
from tests.waiting import wait_until


@pytest.fixture(params=sorted(HARNESSES))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """Each backend; whatever the test submitted is stopped and removed afterwards."""
    with HARNESSES[request.param](tmp_path) as harness:
        yield harness
        backend = harness.make()
        for key in dict.fromkeys(harness.submitted):
            backend.stop(key, 0)
            wait_until(lambda: not ended_by(backend, key).lives, harness.seconds, f"the end of {key}")  # noqa: B023
            backend.cleanup(key)
            assert backend.observe(key).phase is Phase.ABSENT


def ended_by(backend: Backend, key: WorkloadKey) -> Phase:
    """Where a workload is that was asked to end; one that has not begun may be left as it is."""
    phase = backend.observe(key).phase
    backend.wait(key, 1 if phase is Phase.RUNNING else 0, Event())
    return phase


@pytest.fixture
def backend(engine: Harness) -> Backend:
    return engine.make()
