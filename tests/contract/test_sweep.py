"""What `SupportsSweep` promises, asked of every backend that has the power."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.base import Backend, Phase
from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from tests.contract.harness import Harness
from tests.contract.test_backend import LOOP, end, running


@pytest.fixture
def sweeping(backend: Backend) -> SupportsSweep:
    if not isinstance(backend, SupportsSweep):
        pytest.skip("it keeps nothing that needs the sweep")
    return backend


def held(engine: Harness, sweeping: SupportsSweep) -> dict[str, HeldJob]:
    return {job.run_key: job for job in sweeping.held_jobs(engine.installation)}


def remove(engine: Harness, sweeping: SupportsSweep) -> bool:
    key = engine.key()
    return sweeping.remove_job(key.workspace, key.run_id, key.run_key)


def test_an_engine_speaks_for_itself_whoever_asks(engine: Harness, backend: Backend, sweeping: SupportsSweep) -> None:
    other = engine.make()
    assert isinstance(other, SupportsSweep)
    assert sweeping.scope() == other.scope()
    assert sweeping.speaks_for(other.identity())
    assert not sweeping.speaks_for("another engine")


def test_every_workload_of_the_installation_is_held_and_of_no_other(
    engine: Harness, backend: Backend, sweeping: SupportsSweep
) -> None:
    assert held(engine, sweeping) == {}
    keys = [engine.key(), engine.key(start=1), engine.key("evaluate", generation=1)]
    for key in keys:
        backend.submit(engine.workload("true", key))
        end(engine, backend, key)
    [job] = held(engine, sweeping).values()
    key = engine.key()
    assert (job.workspace, job.run_id, job.run_key) == (key.workspace, key.run_id, key.run_key)
    assert sorted(job.workloads) == sorted(keys)
    assert list(sweeping.held_jobs("0" * 16)) == []


def test_a_job_that_runs_is_not_removed(engine: Harness, backend: Backend, sweeping: SupportsSweep) -> None:
    backend.submit(engine.workload(f"echo ready; {LOOP}"))
    running(engine, backend)
    assert not remove(engine, sweeping)
    assert backend.observe(engine.key()).phase is Phase.RUNNING
    assert held(engine, sweeping)[engine.run_key].workloads == (engine.key(),)


def test_a_job_that_is_being_started_is_not_removed(engine: Harness, backend: Backend, sweeping: SupportsSweep) -> None:
    backend.submit(engine.workload(f"echo ready; {LOOP}"))
    assert not remove(engine, sweeping)
    running(engine, backend)


def test_a_job_is_removed_whole_and_twice(engine: Harness, backend: Backend, sweeping: SupportsSweep) -> None:
    for key in (engine.key(), engine.key("evaluate")):
        backend.submit(engine.workload("true", key))
        end(engine, backend, key)
    for _ in range(2):
        assert remove(engine, sweeping)
        assert held(engine, sweeping) == {}
        assert backend.observe(engine.key()).phase is Phase.ABSENT
