"""What some backends can do beyond the verbs of every backend; asked for with `isinstance`, or of the class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from nemo_airflow_provider.model.names import WorkloadKey


class SupportsPause:
    """The power to pause a step by `stop` and to resume it by a `submit` of the next start.

    A backend declares it when both hold: a stop leaves the job's storage as it is, and a later start of the same
    generation may follow whatever the stopped one left in the engine. The verbs are those of `Backend`.
    """


class SupportsFreeze(SupportsPause, ABC):
    """The power to keep a paused workload in memory: profile key `pause: freeze`.

    Engines' own timers stand still meanwhile. `Backend.stop` reaches a frozen workload as any other.
    """

    @abstractmethod
    def freeze(self, key: WorkloadKey) -> None:
        """Ask that all of the workload stands still, and return; `Observation.frozen` says when it does.

        :raises BackendError: the engine does not answer
        """

    @abstractmethod
    def thaw(self, key: WorkloadKey) -> None:
        """Ask that it goes on, and return.

        :raises BackendError: the engine does not answer
        """


class SupportsMultiNode:
    """The power to run a step on several nodes at once: `resources.num_nodes`. The verbs are those of `Backend`."""


class SupportsResultFile(ABC):
    """The power to hand back a file that a workload has left in its own storage."""

    @abstractmethod
    def read_file(self, key: WorkloadKey, path: str, most_bytes: int) -> bytes | None:
        """The beginning of a file below the workload's ephemeral storage; nothing that leads out of there is followed.

        :param path: relative, without `..`
        :param most_bytes: no more is read
        :return: None when there is no such file, or something else in its place
        :raises BackendError: the engine does not answer
        """


@dataclass(frozen=True, slots=True)
class HeldJob:
    """What an engine still has of one run.

    :param workloads: those of its workloads that say what they are; a job's storage alone has none
    """

    workspace: str
    run_id: str
    run_key: str
    workloads: tuple[WorkloadKey, ...] = ()


class OverEngine(ABC):
    """What every power over a whole engine, rather than over one workload, has."""

    @abstractmethod
    def scope(self) -> str:
        """Which engine is meant, in words: of several profiles with one scope, one is asked. Asks no engine."""


class SupportsProbe(OverEngine):
    """The power to say whether the engine can be used from this host."""

    @abstractmethod
    def probe(self) -> None:
        """Return when the engine has answered.

        :raises BackendError: it does not; the text says what to do
        """

    def examined(self) -> tuple[object, ...]:
        """What of its profile `examine` looks at, beside the scope: of several with the same, one is asked."""
        return ()

    @abstractmethod
    def examine(self, *, for_gpus: bool) -> EngineReport:
        """What there is to know of the engine, and of what this profile needs of it.

        :param for_gpus: whether steps with GPUs are to run
        :raises BackendError: see `probe`
        """


@dataclass(frozen=True, slots=True)
class EngineRemark:
    """Something of an engine that is not as it should be.

    :param message: one sentence
    :param remedy: what to do
    :param fails_steps: whether steps fail of it
    """

    message: str
    remedy: str
    fails_steps: bool


@dataclass(frozen=True, slots=True)
class EngineReport:
    """An engine that answers.

    :param engine: its kind, version and address, in words
    """

    engine: str
    remarks: tuple[EngineRemark, ...] = ()


class SupportsGpus(OverEngine):
    """The power to give steps GPUs of an engine's host, and to say who has them."""

    @abstractmethod
    def has_gpus(self) -> bool:
        """Whether there is any GPU that jobs may use. Asks the host, no engine."""

    @abstractmethod
    def gpus(self) -> GpuBoard:
        """Every GPU that jobs may use or have, and who waits for one.

        :raises BackendError: the engine does not answer
        """


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A step that has GPUs, or waits for some.

    :param installation: whose job it is, see `installation.installation_id`
    :param since: seconds since 1970 UTC
    """

    installation: str
    workspace: str
    job: str
    step: str
    task: str
    since: float


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU.

    :param id: what the configuration calls it
    :param taken: whether somebody has it
    :param holder: who, where that is known
    """

    id: str
    name: str | None = None
    uuid: str | None = None
    taken: bool = False
    holder: GpuUser | None = None


@dataclass(frozen=True, slots=True)
class GpuWaiter:
    """A place in the line for GPUs.

    :param gpus: how many it waits for
    """

    user: GpuUser
    gpus: int


@dataclass(frozen=True, slots=True)
class GpuBoard:
    """The GPUs of one engine.

    :param waiters: first come first
    """

    devices: tuple[GpuDevice, ...]
    waiters: tuple[GpuWaiter, ...]


class SupportsSweep(OverEngine):
    """Power: what the engine still has of an installation can be listed, and removed job by job.

    Every engine that keeps anything without an owner of its own needs it (`docs/design/sweep.md`).
    """

    @abstractmethod
    def held_jobs(self, installation: str) -> Iterable[HeldJob]:
        """Everything here that carries this installation's id, and nothing else.

        :raises BackendError: the engine does not answer
        """

    @abstractmethod
    def speaks_for(self, engine: str) -> bool:
        """Whether an engine named by `Backend.identity` is this one, now or before its last start: only then can be
        said that a workload is lost."""

    @abstractmethod
    def remove_job(self, workspace: str, run_id: str, run_key: str) -> bool:
        """Remove everything of a run.

        :return: False when a workload of it runs or is being started, or somebody else is removing it; then nothing
            is removed
        :raises BackendError: it cannot be removed
        """
