"""A backend over a temporary directory, and what tests ask of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.base import Chunk, Environment, Observation, Phase, Workload
from nemo_airflow_provider.backends.subprocess.backend import SubprocessBackend
from nemo_airflow_provider.backends.subprocess.config import SubprocessConfig
from nemo_airflow_provider.backends.subprocess.control import CONTROL
from nemo_airflow_provider.backends.subprocess.layout import run_directory, step_directory
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import StepSpec
from tests.waiting import wait_until

#: Whose workloads these are.
INSTALLATION = "0123456789abcdef"


def lives(pid: int) -> bool:
    """Whether a process of that number runs (a zombie does not)."""
    return processes.look(pid) is not None


def key(step: str = "train", generation: int = 0, start: int = 0, run_key: str = "firstrun") -> WorkloadKey:
    return WorkloadKey("default", "my-job", run_key, step, generation, start)


@dataclass
class Host:
    """A profile on this host."""

    root: Path
    backend: SubprocessBackend

    @classmethod
    def make(cls, root: Path, **config: Any) -> Host:
        return cls(root, SubprocessBackend(SubprocessConfig(working_directory=str(root), **config)))

    def workload(
        self,
        command: Sequence[str],
        of: WorkloadKey | None = None,
        config: Mapping[str, Any] | None = None,
        **groups: Mapping[str, str],
    ) -> Workload:
        of = of or key()
        step = StepSpec.model_validate(
            {
                "name": of.step,
                "executor": {"provider": "subprocess", "command": list(command)},
                "config": dict(config or {}),
            }
        )
        environment = Environment(**{"system": {"NEMO_JOB_ID": of.job}, **groups})
        return Workload(of, step, "attempt", environment, INSTALLATION)

    def run(self, command: Sequence[str], of: WorkloadKey | None = None, **more: Any) -> Mapping[str, Any]:
        return self.backend.submit(self.workload(command, of, **more))

    def shell(self, script: str, of: WorkloadKey | None = None, **more: Any) -> Mapping[str, Any]:
        return self.run(["/bin/sh", "-c", script], of, **more)

    def python(self, script: str, of: WorkloadKey | None = None, **more: Any) -> Mapping[str, Any]:
        return self.run([sys.executable, "-S", "-c", script], of, **more)

    def end(self, of: WorkloadKey | None = None, seconds: float = 60.0) -> Observation:
        of = of or key()
        self.backend.wait(of, seconds, Event())
        seen = self.backend.observe(of)
        assert seen.phase in (Phase.ENDED, Phase.LOST), seen
        return seen

    def chunks(self, of: WorkloadKey | None = None, position: Any = None) -> list[Chunk]:
        return [chunk for chunk in self.backend.read_logs(of or key(), position, Event()) if chunk]

    def output(self, of: WorkloadKey | None = None, stream: str | None = None) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks(of) if stream in (None, chunk.stream))

    def work(self, of: WorkloadKey | None = None) -> Path:
        of = of or key()
        return self.job(of) / step_directory(of.step) / of.task

    def job(self, of: WorkloadKey | None = None) -> Path:
        of = of or key()
        return self.root / of.workspace / run_directory(of.run_id, of.run_key)

    def control(self, of: WorkloadKey | None = None) -> Path:
        return self.work(of) / CONTROL

    def output_file(self, of: WorkloadKey | None = None) -> bytes:
        """The output file as it stands; nothing while there is none."""
        file = self.control(of) / "output"
        return file.read_bytes() if file.exists() else b""

    def record(self, name: str, of: WorkloadKey | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.control(of) / name).read_text())
        return found

    def supervisor(self, of: WorkloadKey | None = None) -> int:
        found: int = self.record("started", of)["supervisor"]
        return found

    def kill_supervisor(self, of: WorkloadKey | None = None) -> None:
        supervisor = self.supervisor(of)
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not lives(supervisor))

    @contextmanager
    def frozen_supervisor(self) -> Iterator[None]:
        """For the length of the block it sees and does nothing."""
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(supervisor, signal.SIGCONT)

    def kill(self) -> None:
        """End whatever lives under this root, whoever it is."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self, of: WorkloadKey | None = None) -> list[int]:
        """Supervisors and workloads under this root, or of one job, that live."""
        here = os.fsencode(self.root if of is None else self.job(of))
        found = []
        for process in processes.living().values():
            base = Path("/proc") / str(process.pid)
            try:
                ours = here in (base / "environ").read_bytes()
                if b"subprocess.supervisor" in (base / "cmdline").read_bytes():
                    ours = any(here in os.fsencode(os.readlink(file)) for file in (base / "fd").iterdir())
            except OSError:  # it ended meanwhile
                continue
            if ours and process.pid != os.getpid():
                found.append(process.pid)
        return found
