from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.backends.subprocess.host import Host
from tests.waiting import wait_until


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A profile with a short grace; nothing of it may live after the test."""
    made = Host.make(tmp_path / "work", graceful_shutdown_timeout_seconds=5)
    yield made
    try:
        wait_until(lambda: not made.processes())
    finally:
        made.kill()
