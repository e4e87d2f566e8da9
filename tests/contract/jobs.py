"""What the contract suite of whole jobs needs of a backend: steps that run scripts in it, and a look at what is left.

A new backend adds one entry to `JOB_HARNESSES`, and its profiles to those of the lab.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nemo_airflow_provider.backends.registry import BACKENDS
from tests.e2e.lab import Job, Lab
from tests.stack import docker, kubernetes


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
    #: Whether stdout and stderr can be told apart.
    has_streams: ClassVar[bool] = True

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

    @abstractmethod
    def left(self, job: Job) -> object:
        """What the engine still keeps of the job's steps; false when it keeps nothing."""

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

    def left(self, job: Job) -> object:
        return list((self.lab.stack.home / "workloads" / "default").glob(f"{job.name}.*"))


@dataclass
class FileGate(Gate):
    """A file of this host."""

    lab: Lab

    def __post_init__(self) -> None:
        self._path = self.lab.marks().path
        self.condition = f"[ -e '{self._path}' ]"

    def open(self) -> None:
        self._path.touch()


class ContainerHarness(JobHarness):
    """Steps in containers, which ask for job storage."""

    def step(self, name: str, script: str, role: str = "default", **more: Any) -> dict[str, Any]:
        storage = {"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "/job-storage"}
        more["environment"] = [*more.get("environment", []), storage]
        return super().step(name, script, role, **more)


class DockerHarness(ContainerHarness):
    """Containers of the engine that tests may use."""

    backend = "docker"
    engine = "docker"

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        docker.image()

    def executor(self, script: str, role: str) -> dict[str, Any]:
        # `cpu` steps of a profile that has a subprocess namesake become processes of the host.
        profile = "default" if role == "default" else f"docker-{role}"
        return {"provider": "cpu", "profile": profile, "container": {"entrypoint": ["/bin/sh", "-c", script]}}

    def gate(self) -> Gate:
        return VolumeGate(docker.GATES_PATH, docker.open_gate)

    def alive(self, job: Job) -> object:
        return docker.running(job.name)

    def left(self, job: Job) -> object:
        return docker.held(job.name)


class KubernetesHarness(ContainerHarness):
    """Pods of the cluster that tests may use."""

    backend = "kubernetes_job"
    engine = "kubernetes"
    has_streams = False

    def executor(self, script: str, role: str) -> dict[str, Any]:
        profile = "kubernetes" if role == "default" else f"kubernetes-{role}"
        return {"provider": "cpu", "profile": profile, "container": {"entrypoint": ["/bin/sh", "-c", script]}}

    def gate(self) -> Gate:
        return VolumeGate(kubernetes.GATES_PATH, kubernetes.open_gate)

    def alive(self, job: Job) -> object:
        return kubernetes.running(job.name)

    def left(self, job: Job) -> object:
        folders = list((kubernetes.shared().claim.folder / "jobs" / "default").glob(f"{job.name}.*"))
        return kubernetes.held(job.name, "jobs,pods,secrets,configmaps") + folders


class VolumeGate(Gate):
    """A file in a volume that all containers of the lab's profiles see.

    :param path: of the volume in them
    :param make: makes a file in it
    """

    def __init__(self, path: str, make: Callable[[str], None]) -> None:
        self._name = secrets.token_hex(6)
        self._make = make
        self.condition = f"[ -e {path}/{self._name} ]"

    def open(self) -> None:
        self._make(self._name)


JOB_HARNESSES: dict[str, type[JobHarness]] = {
    "docker": DockerHarness,
    "kubernetes_job": KubernetesHarness,
    "subprocess": SubprocessHarness,
}
