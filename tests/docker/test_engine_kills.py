"""An engine that is killed and comes back, under steps that run."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import BackendError
from tests.contract.test_backend import end
from tests.docker import dock as docks
from tests.docker.dock import Dock
from tests.stack import docker, engines
from tests.stack.dockerd import Dockerd

# The client library does not close a socket that cannot be connected.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

COUNT = """i=0; cd "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"; trap 'echo $i last >&2; exit 7' TERM
    while :; do echo $i; i=$((i+1)); sleep 0.02; done"""


@contextmanager
def engine(directory: Path, *options: str) -> Iterator[tuple[Dockerd, Dock]]:
    """An engine that may be killed."""
    engines.require("owned_docker")
    daemon = Dockerd(*options)
    try:
        daemon.start()
        with closing(daemon.access.client()) as client:
            docker.make_image(client, docker.IMAGE)
        with docks.dock(daemon.access, docker.IMAGE, directory) as made:
            yield daemon, made
    finally:
        daemon.remove()
        gc.collect()


class Reader(threading.Thread):
    """Follows a step's output to its end."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(daemon=True)
        self.lines: list[bytes] = []
        self.moved = threading.Event()
        self._dock = dock
        self.start()

    def run(self) -> None:
        for chunk in self._dock.backend().read_logs(self._dock.key(), None, threading.Event()):
            if chunk is not None:
                self.lines.append(chunk.data)
                self.moved.set()

    def goes_on(self) -> None:
        self.moved.clear()
        assert self.moved.wait(60), "no more output"


def test_with_live_restore_a_step_survives_a_killed_engine(tmp_path: Path) -> None:
    with engine(tmp_path, "--live-restore") as (daemon, dock):
        backend = dock.backend()
        backend.submit(dock.workload(COUNT))
        reader = Reader(dock)
        reader.goes_on()
        daemon.end(signal.SIGKILL)
        with pytest.raises(BackendError, match="No answer from the Docker engine at"):
            backend.observe(dock.key())
        daemon.start()
        assert backend.observe(dock.key()).phase is Phase.RUNNING
        reader.goes_on()
        backend.stop(dock.key(), 60)
        seen = end(dock, backend)
        assert (seen.exit_code, seen.stopped) == (7, "asked")
        reader.join(60)
        *counted, last = reader.lines
        assert [int(line) for line in counted] == list(range(len(counted)))
        assert last.endswith(b"last\n")


def test_a_container_that_is_removed_by_hand_is_gone(tmp_path: Path) -> None:
    with engine(tmp_path) as (_, dock):
        backend = dock.backend()
        backend.submit(dock.workload(COUNT))
        reader = Reader(dock)
        reader.goes_on()
        dock.client.remove_container(dock.inspect()["Id"], force=True)
        assert backend.observe(dock.key()).phase is Phase.ABSENT
        reader.join(60)
        assert not reader.is_alive()
