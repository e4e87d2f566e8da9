from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.cli.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as running:
        yield running
