from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase
from tests.contract.harness import HARNESSES, Harness


@pytest.fixture(params=sorted(HARNESSES))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """Each backend; whatever the test submitted is stopped and removed afterwards."""
    with HARNESSES[request.param](tmp_path) as harness:
        yield harness
        backend = harness.make()
        for key in dict.fromkeys(harness.submitted):
            backend.stop(key, 0)
            backend.wait(key, harness.seconds if backend.observe(key).phase is Phase.RUNNING else 0, Event())
            backend.cleanup(key)
            assert backend.observe(key).phase is Phase.ABSENT


@pytest.fixture
def backend(engine: Harness) -> Backend:
    return engine.make()
