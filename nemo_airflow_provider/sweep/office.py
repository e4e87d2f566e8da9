"""What a sweep asks of the office, and what it is told: the words between a worker's host and Airflow's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from pydantic import BaseModel, Field

from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.plain import cleaned

#: Jobs of one question.
MOST_JOBS = 50


class Hold(StrEnum):
    """Who still needs what an engine holds."""

    LIVE = "live"  #: a try of Airflow has it, or a next one will adopt it
    OVER = "over"  #: Airflow is done with it; it is kept for its TTL
    GONE = "gone"  #: its job was deleted


class AskedWorkload(BaseModel):
    """A workload of the job that is asked about."""

    step: str
    generation: int
    start: int


class AskedJob(BaseModel):
    """A job that an engine holds something of."""

    workspace: str
    run_id: str
    run_key: str
    workloads: list[AskedWorkload] = Field(default_factory=list)


class WorkloadStanding(BaseModel):
    """What becomes of a workload.

    :param over_seconds: how long it has not been needed
    :param settled: whether its step's end is known, and so all of its output stored
    :param engine: the engine it was handed to; empty where nothing says so
    :param step_index: its step's place in the job
    :param grace_seconds: what it is given to end
    :param profile: `provider/name`
    :param secrets: keys of the Airflow Variables whose values its environment has
    """

    hold: Hold
    over_seconds: float = 0
    settled: bool = True
    engine: str = ""
    step_index: int = 0
    grace_seconds: float = 0
    profile: str = ""
    secrets: list[str] = Field(default_factory=list)


class JobStanding(BaseModel):
    """What becomes of a job.

    :param over_seconds: how long its run has been over
    :param profiles: `provider/name` of each of its steps
    :param workloads: in the order they were asked about
    """

    hold: Hold
    over_seconds: float = 0
    profiles: list[str] = Field(default_factory=list)
    workloads: list[WorkloadStanding] = Field(default_factory=list)


class Ending(BaseModel):
    """How a workload ended that no runner has watched to its end; all of its output is stored.

    :param exit_code: None when nobody can say
    :param message: of a workload that was lost
    """

    workspace: str
    run_id: str
    run_key: str
    step: str
    generation: int
    start: int
    exit_code: int | None = None
    message: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)

    @property
    def key(self) -> WorkloadKey:
        """The workload."""
        return WorkloadKey(self.workspace, self.run_id, self.run_key, self.step, self.generation, self.start)

    @classmethod
    def of(cls, key: WorkloadKey, exit_code: int | None, message: str | None, details: Mapping[str, Any]) -> Ending:
        """The ending of a workload."""
        return cls(
            workspace=key.workspace,
            run_id=key.run_id,
            run_key=key.run_key,
            step=key.step,
            generation=key.generation,
            start=key.start,
            exit_code=exit_code,
            message=cleaned(message),
            details=cleaned(dict(details)),
        )


class Office(Protocol):
    """The part of the sweep that has Airflow's database.

    Every method raises `NemoJobsError` when it cannot answer, or when the installations differ.
    """

    def chores(self) -> Mapping[str, int]:
        """Do what needs no engine; what was done, in numbers."""

    def standings(self, jobs: Sequence[AskedJob]) -> Sequence[JobStanding]:
        """What becomes of jobs, at most `MOST_JOBS`, in their order."""

    def settle(self, endings: Sequence[Ending]) -> int:
        """Write down how workloads ended; how many steps that was news of."""
