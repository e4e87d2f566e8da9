from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker import dock as docks
from tests.docker.dock import Dock
from tests.stack import docker, engines


@pytest.fixture
def dock(tmp_path: Path) -> Iterator[Dock]:
    """The engine that tests may use."""
    engines.require("docker")
    with docks.dock(docks.own_access(), docker.image(), tmp_path) as made:
        yield made
