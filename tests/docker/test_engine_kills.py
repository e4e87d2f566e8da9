"""An engine that is killed and comes back, under steps that run."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import BackendError, CapacityError
from nemo_airflow_provider.runner.outcome import outcome_of
from tests.contract.test_backend import end
from tests.docker import dock as docks
from tests.docker.dock import Dock
from tests.stack import docker, engines
from tests.stack.dockerd import Dockerd

#: Told to end, it says how far it came and ends with a code of its own.
COUNT = """i=0; cd "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"; trap 'echo $i last >&2; exit 7' TERM
    while :; do echo $i; i=$((i+1)); sleep 0.02; done"""


@contextmanager
def engine(
    directory: Path, *options: str, prepare: Callable[[Dockerd], object] = lambda _: None
) -> Iterator[tuple[Dockerd, Dock]]:
    """An engine that may be killed.

    :param prepare: called before it is started
    """
    engines.require("owned_docker")
    daemon = Dockerd(*options)
    try:
        prepare(daemon)
        daemon.start()
        with closing(daemon.access.client()) as client:
            docker.make_image(client, docker.IMAGE)
        with docks.dock(daemon.access, docker.IMAGE, directory) as made:
            yield daemon, made
    finally:
        daemon.remove()


class Reader(threading.Thread):
    """Follows a step's output to its end."""

    def __init__(self, dock: Dock, step: str = "train") -> None:
        super().__init__(daemon=True)
        self.lines: list[bytes] = []
        self.moved = threading.Event()
        self._dock, self._key = dock, dock.key(step)
        self.start()

    def run(self) -> None:
        for chunk in self._dock.backend().read_logs(self._key, None, threading.Event()):
            if chunk is not None:
                self.lines.append(chunk.data)
                self.moved.set()

    def goes_on(self) -> None:
        self.moved.clear()
        assert self.moved.wait(60), "no more output"


@contextmanager
def waited_for(dock: Dock) -> Iterator[None]:
    """Somebody waits for the step's end, and bears whatever becomes of the engine."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(dock.backend().wait, dock.key(), 5, threading.Event())
        yield
        waiting.result(60)


SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])


@SIGNALS
def test_an_engine_that_keeps_its_containers(tmp_path: Path, number: signal.Signals) -> None:
    """The step goes on, and no line is lost or told twice."""
    with engine(tmp_path, "--live-restore") as (daemon, dock):
        backend = dock.backend()
        backend.submit(dock.workload(COUNT))
        reader = Reader(dock)
        reader.goes_on()
        with waited_for(dock):
            daemon.end(number)
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


@SIGNALS
def test_an_engine_that_ends_its_containers(tmp_path: Path, number: signal.Signals) -> None:
    """Nobody may take that for a success or for the job's own fault, whatever the step does when it is told to end."""
    scripts = {"own": COUNT, "well": COUNT.replace("exit 7", "exit 0"), "rude": COUNT.replace("trap", ": trap")}
    with engine(tmp_path) as (daemon, dock):
        backend = dock.backend()
        for step, script in scripts.items():
            backend.submit(dock.workload(script, dock.key(step)))
        reader = Reader(dock, "own")
        reader.goes_on()
        daemon.end(number)
        daemon.start()
        for step in scripts:
            seen = end(dock, backend, dock.key(step))
            assert (seen.stopped, seen.fault) == ("interrupted", "platform"), (step, seen)
            assert str(seen.message).startswith("The Docker engine was stopped, or started anew"), step
        reader.join(60)
        numbers = [int(line.split()[0]) for line in reader.lines]
        assert numbers == list(range(len(numbers)))
        # What ends by itself afterwards is judged as ever.
        again = dock.key("own", start=1)
        backend.submit(dock.workload("exit 143", again))
        assert end(dock, backend, again).stopped is None


def test_a_container_that_is_removed_by_hand_is_gone(dock: Dock) -> None:
    backend = dock.backend()
    backend.submit(dock.workload(COUNT))
    reader = Reader(dock)
    reader.goes_on()
    with waited_for(dock):
        dock.client.remove_container(dock.inspect()["Id"], force=True, v=True)
    seen = backend.observe(dock.key())
    assert seen.phase is Phase.ABSENT
    assert outcome_of(seen, backend=backend, engine="host/A:B", cancelled=False, expired=None).message == (
        "Container not found: it was removed by somebody, or by the engine; it was started on host/A:B"
    )
    assert list(backend.find(dock.key())) == []
    reader.join(60)
    assert not reader.is_alive()


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A step that cannot be started for want of room waits, and begins once there is some."""

    def small(daemon: Dockerd) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", daemon.folder], check=True)

    with engine(tmp_path, prepare=small) as (daemon, dock):
        backend, workload = dock.backend(), dock.workload("echo done")
        ballast = daemon.folder / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        with pytest.raises(CapacityError, match="no space left on device"):
            backend.submit(workload)
        ballast.unlink()
        assert dock.output(backend, workload) == "done\n"
