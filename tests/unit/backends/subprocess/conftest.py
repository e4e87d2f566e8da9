from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
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
        for pid in made.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
