"""The subprocess backend: a step is a process on the worker's host, owned by a supervisor of its own."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.base import (
    Backend,
    Chunk,
    Observation,
    Phase,
    Position,
    Signal,
    Site,
    Workload,
)
from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsResultFile
from nemo_airflow_provider.backends.subprocess import environment, job, launch, logs, results
from nemo_airflow_provider.backends.subprocess.config import SubprocessConfig
from nemo_airflow_provider.backends.subprocess.holdings import SubprocessHoldings
from nemo_airflow_provider.backends.subprocess.layout import (
    CONFIG_FILE,
    Place,
    place_of,
)
from nemo_airflow_provider.backends.subprocess.observation import details, look
from nemo_airflow_provider.backends.subprocess.reach import below, write_file
from nemo_airflow_provider.backends.subprocess.workdir import WorkDirectory, open_work, present
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import ProcessExecutor

_START_SECONDS = 90.0
_SETTLE_SECONDS = 5.0
_WAIT_SECONDS = (0.005, 0.025)


class SubprocessBackend(SubprocessHoldings, Backend, SupportsFreeze, SupportsResultFile):
    """Processes under `working_directory` of one host; whoever runs as the same user there may use every verb."""

    stderr_prefix = "[stderr] "
    noun = "Subprocess"
    lost_text = "Local subprocess metadata not found"

    def __init__(self, config: SubprocessConfig, site: Site | None = None) -> None:  # noqa: ARG002 - needs no engine
        super().__init__(Path(config.working_directory))
        self._config = config

    def identity(self) -> str:
        """Host name and boot: after a restart of the host its processes are others."""
        return f"{socket.gethostname()}:{processes.boot_id()}"

    def find(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        """See `Backend.find`; a start that never got as far as to name itself has started nothing, and one that
        names itself wrongly was written by the workload."""
        place = self._place(key)
        found = []
        with launch.translated(place):
            for candidate in job.workloads(place, place.step):
                with present(candidate) as work:
                    other = work.key() if work else None
                if other is None or other.task != candidate.task:
                    continue
                if other == replace(key, generation=other.generation, start=other.start):
                    found.append(other)
        return found

    def submit(self, workload: Workload) -> Mapping[str, Any]:
        """See `Backend.submit`; returns when the command runs."""
        executor = workload.step.executor
        if not isinstance(executor, ProcessExecutor):
            raise StartError(
                f"Step '{workload.step.name}' asks for a container; a subprocess profile runs commands only."
            )
        place = self._place(workload.key)
        deadline = time.monotonic() + _START_SECONDS
        with launch.translated(place):
            while time.monotonic() < deadline:
                with _claimed(place, workload.installation, deadline - time.monotonic()) as work:
                    if work is not None:
                        if work.started() is None and work.ended() is None:
                            self._start(work, workload, executor.command)
                        return details(work)
        raise BackendError(f"Another process has been starting {place.work} for {_START_SECONDS:.0f} seconds.")

    def _start(self, work: WorkDirectory, workload: Workload, command: Sequence[str]) -> None:
        place = work.place
        env = environment.compose(os.environ, self._config.env, workload.environment, _paths(place))
        try:
            program = environment.program(command[0], env.get("PATH", os.defpath), place.work)
            if program is None:
                raise launch.not_found(command[0], place.work)
            _fill(work, workload)
            request = {
                "argv": [program, *command[1:]],
                "env": env,
                "grace_seconds": self._config.graceful_shutdown_timeout_seconds,
                "ttl_seconds": self._config.ttl_seconds_active,
                "root": str(place.root),
                "parts": [place.workspace, place.run, place.step, place.task],
            }
            launch.launch(work.descriptor, request, workload.key.task, command[0], place.work)
        except StartError:
            job.remove_work(place)
            raise

    def observe(self, key: WorkloadKey) -> Observation:
        """See `Backend.observe`; of a lost workload, what is left of its processes is killed."""
        place = self._place(key)
        with launch.translated(place), present(place) as work:
            return Observation(Phase.ABSENT) if work is None else look(work)

    def read_logs(self, key: WorkloadKey, position: Position | None, stop: Signal) -> Iterator[Chunk | None]:
        """See `Backend.read_logs`; a position is a byte offset in the output file."""
        place = self._place(key)
        with launch.translated(place), present(place) as work:
            if work is not None:
                yield from logs.read(work, key.task, position or 0, stop)

    def read_file(self, key: WorkloadKey, path: str, most_bytes: int) -> bytes | None:
        """See `SupportsResultFile.read_file`."""
        place = self._place(key)
        with launch.translated(place), present(place) as work:
            return None if work is None else results.read_file(work, path, most_bytes)

    def stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        """See `Backend.stop`; of several graces the one that is over first counts."""
        place = self._place(key)
        deadline = time.monotonic() + _SETTLE_SECONDS
        with launch.translated(place), present(place) as work:
            while work is not None and not work.ask_to_stop(grace_seconds):
                if not work.being_started() or time.monotonic() > deadline:
                    look(work)  # kills what is left when the supervisor is lost
                    return
                time.sleep(_WAIT_SECONDS[0])

    def freeze(self, key: WorkloadKey) -> None:
        """See `SupportsFreeze.freeze`."""
        self._wish_frozen(key, True)

    def thaw(self, key: WorkloadKey) -> None:
        """See `SupportsFreeze.thaw`."""
        self._wish_frozen(key, False)

    def _wish_frozen(self, key: WorkloadKey, frozen: bool) -> None:
        place = self._place(key)
        with launch.translated(place), present(place) as work:
            if work is not None:
                work.wish_frozen(frozen)

    def cleanup(self, key: WorkloadKey) -> None:
        """Remove the work directory, unless its command runs or is being started."""
        place = self._place(key)
        with launch.translated(place):
            job.remove_impostor(place)
            with present(place) as work:
                if work is not None and work.settle():
                    job.remove_work(place)

    def wait(self, key: WorkloadKey, seconds: float, wake: Signal) -> None:
        """See `Backend.wait`; the end is seen within 25 ms."""
        place = self._place(key)
        deadline = time.monotonic() + seconds
        pause, longest = _WAIT_SECONDS
        with launch.translated(place), present(place) as work:
            if work is None:
                wake.wait(seconds)
                return
            before = _state(work)
            while not wake.is_set() and (left := deadline - time.monotonic()) > 0:
                if (now := _state(work)) != before or now[:2] == (True, False):
                    return
                wake.wait(min(pause, left))
                pause = min(pause * 1.5, longest)

    def _place(self, key: WorkloadKey) -> Place:
        return place_of(self._root, key)


@contextmanager
def _claimed(place: Place, installation: str, seconds: float) -> Iterator[WorkDirectory | None]:
    """The work directory, made and locked; None when others kept it for so long, or removed it meanwhile."""
    work: WorkDirectory | None = None
    with ExitStack() as stack:
        # The last other start of the step may be in removal.
        with job.kept(place, installation, seconds), suppress(FileNotFoundError):
            opened_work = stack.enter_context(open_work(place, create=True))
            if opened_work.lock(seconds):
                work = opened_work
        yield work


def _state(work: WorkDirectory) -> tuple[bool, bool, bool]:
    """Whether it has started, whether its supervisor lives, and whether it stands still."""
    return work.started() is not None, work.supervised(), work.frozen()


def _paths(place: Place) -> dict[str, str]:
    return {
        environment.CONFIG_FILE: str(place.config / CONFIG_FILE),
        environment.CONFIG_DIRECTORY: str(place.config),
        environment.SCRATCH: str(place.scratch),
        environment.JOB_STORAGE: str(place.storage),
    }


def _fill(work: WorkDirectory, workload: Workload) -> None:
    """Everything the command finds at its start."""
    work.write_key(workload.key)
    with suppress(FileExistsError):
        os.mkdir(work.place.scratch.name, 0o700, dir_fd=work.descriptor)
    with below(work.descriptor, work.place.config.name, create=True) as config:
        write_file(config, CONFIG_FILE, json.dumps(workload.step.config).encode())
