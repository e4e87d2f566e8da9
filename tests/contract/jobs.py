"""What the contract suite of whole jobs needs of a backend: steps that run scripts in it, and a look at what is left.

A new backend adds one entry to `JOB_HARNESSES`, and its profiles to those of the lab.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from nemo_airflow_provider.backends.registry import BACKENDS
from tests.e2e.lab import Job, Lab


class Gate(ABC):
    """Something that a script looks for, and that the test makes appear where the script runs."""

    #: A shell condition that is true once the gate is open.
    condition: str

    @abstractmethod
    def open(self) -> None: ...


class JobHarness(ABC):
    """One backend under test, in an Airflow that is there.

    :param lab: its profiles have the ones that `executor` names
    """

    backend: ClassVar[str]
    #: What `tests.stack.engines` calls the engine; None: nothing but this host is needed.
    engine: ClassVar[str | None] = None
    #: How long the engine may take for anything.
    seconds: ClassVar[float] = 60

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    @abstractmethod
    def executor(self, script: str, role: str) -> dict[str, Any]:
        """The executor of a step that runs a script with `/bin/sh -c`.

        :param role: `default`; `limited`, with an active TTL of 2 s and a grace of 1 s; `freezing`, which pauses by
            freezing
        """

    @abstractmethod
    def gate(self) -> Gate:
        """A new gate, closed."""

    @abstractmethod
    def alive(self, job: Job) -> object:
        """What of the job still runs in the engine; false when nothing does."""

    def step(self, name: str, script: str, role: str = "default", **more: Any) -> dict[str, Any]:
        """One step of a job body."""
        return {"name": name, "executor": self.executor(script, role), **more}

    def has(self, power: type) -> bool:
        """Whether the backend has a power."""
        return BACKENDS[self.backend].has(power)


class SubprocessHarness(JobHarness):
    """Processes of this host."""

    backend = "subprocess"

    def executor(self, script: str, role: str) -> dict[str, Any]:
        return {"provider": "subprocess", "profile": role, "command": ["/bin/sh", "-c", script]}

    def gate(self) -> Gate:
        return FileGate(self.lab)

    def alive(self, job: Job) -> object:
        return job.workloads()


@dataclass
class FileGate(Gate):
    """A file of this host."""

    lab: Lab

    def __post_init__(self) -> None:
        self._path = self.lab.marks().path
        self.condition = f"[ -e '{self._path}' ]"

    def open(self) -> None:
        self._path.touch()


JOB_HARNESSES: dict[str, type[JobHarness]] = {"subprocess": SubprocessHarness}
