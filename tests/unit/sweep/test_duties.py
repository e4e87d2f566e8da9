"""What is to be done with what an engine holds: tables."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.sweep.duties import ELSEWHERE_SECONDS, Duty, duty, is_removable
from nemo_airflow_provider.sweep.office import Hold, JobStanding, WorkloadStanding

ALIVE = (Phase.PENDING, Phase.RUNNING)
DEAD = (Phase.ENDED, Phase.LOST, Phase.ABSENT)
LATE = ELSEWHERE_SECONDS + 101


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("over_seconds", [0, 10.0**9])
def test_what_is_live_is_left_whatever_it_looks_like(phase: Phase, settled: bool, over_seconds: float) -> None:
    standing = WorkloadStanding(hold=Hold.LIVE, settled=settled, over_seconds=over_seconds)
    assert duty(standing, phase, ours=True, ttl_seconds=0) is Duty.LEAVE


@pytest.mark.parametrize("phase", ALIVE)
@pytest.mark.parametrize("hold", [Hold.OVER, Hold.GONE])
@pytest.mark.parametrize("settled", [True, False])
def test_what_lives_and_is_not_needed_is_stopped(phase: Phase, hold: Hold, settled: bool) -> None:
    standing = WorkloadStanding(hold=hold, settled=settled)
    assert duty(standing, phase, ours=True, ttl_seconds=100) is Duty.STOP


@pytest.mark.parametrize("phase", DEAD)
@pytest.mark.parametrize(
    ("hold", "settled", "ours", "over_seconds", "expected"),
    [
        (Hold.GONE, True, True, 0, Duty.CLEAN),
        (Hold.GONE, False, True, 0, Duty.CLEAN),
        (Hold.OVER, False, True, 0, Duty.COLLECT),
        (Hold.OVER, False, True, LATE, Duty.COLLECT),
        (Hold.OVER, False, False, 101, Duty.LEAVE),
        (Hold.OVER, False, False, LATE, Duty.CLEAN),
        (Hold.OVER, True, True, 100, Duty.LEAVE),
        (Hold.OVER, True, True, 101, Duty.CLEAN),
        (Hold.OVER, True, False, 101, Duty.CLEAN),
    ],
)
def test_what_is_dead(phase: Phase, hold: Hold, settled: bool, ours: bool, over_seconds: float, expected: Duty) -> None:
    standing = WorkloadStanding(hold=hold, settled=settled, over_seconds=over_seconds)
    assert duty(standing, phase, ours=ours, ttl_seconds=100) is expected


@pytest.mark.parametrize(
    ("hold", "over_seconds", "settled", "expected"),
    [
        (Hold.LIVE, 10.0**9, True, False),
        (Hold.OVER, 100, True, False),
        (Hold.OVER, 101, True, True),
        (Hold.OVER, 101, False, False),
        (Hold.OVER, LATE, False, True),
        (Hold.GONE, 0, True, True),
    ],
)
def test_when_a_job_is_removed(hold: Hold, over_seconds: float, settled: bool, expected: bool) -> None:
    workload = WorkloadStanding(hold=hold, settled=settled)
    standing = JobStanding(hold=hold, over_seconds=over_seconds, workloads=[workload])
    assert is_removable(standing, ttl_seconds=100) is expected
