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


class SupportsSweep(ABC):
    """Power: what the engine still has of an installation can be listed, and removed job by job.

    Every engine that keeps anything without an owner of its own needs it (`docs/design/sweep.md`).
    """

    @abstractmethod
    def scope(self) -> str:
        """What `held_jobs` looks through: of several profiles with one scope, one is asked."""

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
