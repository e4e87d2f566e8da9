"""What is to be done with a workload or a job that an engine holds: pure."""

from __future__ import annotations

from enum import StrEnum

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.sweep.office import Hold, JobStanding, WorkloadStanding

#: What ran on an engine that is not here any more, such as a worker that was replaced, is kept so much longer: if it
#: comes back, it can still tell how its workloads ended.
ELSEWHERE_SECONDS = 86_400.0


class Duty(StrEnum):
    """What is to be done with a workload."""

    LEAVE = "leave"
    STOP = "stop"  #: and then collect
    COLLECT = "collect"  #: store the rest of its output, and say how it ended
    CLEAN = "clean"


def duty(standing: WorkloadStanding, phase: Phase, *, ours: bool, ttl_seconds: float) -> Duty:
    """What is to be done with a workload that is not live.

    :param phase: of the workload now
    :param ours: whether this engine can say how it ended
    :param ttl_seconds: how long what is over is kept
    """
    if standing.hold is Hold.LIVE:
        return Duty.LEAVE
    if phase.lives:
        return Duty.STOP
    if standing.hold is Hold.GONE:
        return Duty.CLEAN
    if not standing.settled and ours:
        return Duty.COLLECT
    kept = ttl_seconds if standing.settled else ttl_seconds + ELSEWHERE_SECONDS
    return Duty.CLEAN if standing.over_seconds > kept else Duty.LEAVE


def is_removable(standing: JobStanding, *, ttl_seconds: float) -> bool:
    """Whether everything of a job goes: it was deleted, or it has been over for long enough and nothing of it is
    still to be told."""
    if standing.hold is Hold.GONE:
        return True
    told = all(workload.settled for workload in standing.workloads)
    kept = ttl_seconds if told else ttl_seconds + ELSEWHERE_SECONDS
    return standing.hold is Hold.OVER and standing.over_seconds > kept
