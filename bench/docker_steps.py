"""Jobs whose steps are containers, beside plain `docker run` and beside Airflow's own DockerOperator.

All three run `true` in containers of the same image, in turns, so that each sample compares what the machine did at
the same time.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from bench import engine, stock_docker, stock_runs
from bench.jobs import seconds_to_complete
from bench.registry import System, measurement

_COMMAND = ["true"]


@measurement("docker_1_step", runs=5, warm_up=2, upstream=False)
def one_step(system: System) -> Mapping[str, float]:
    """One container."""
    return _sample(system, 1)


@measurement("docker_3_steps", runs=3, warm_up=1, upstream=False)
def three_steps(system: System) -> Mapping[str, float]:
    """Three, one after the other."""
    return _sample(system, 3)


def _sample(system: System, count: int) -> dict[str, float]:
    engine.require()
    plain = engine.seconds_of_plain_runs(count)
    job = seconds_to_complete(system, count, engine.executor(_COMMAND))
    name = f"bench-{secrets.token_hex(6)}"
    with system.client() as client:
        stock = stock_runs.seconds_to_succeed(client, name, stock_docker.dag(count), _COMMAND)
    return {
        "job_seconds": job,
        "docker_run_seconds": plain,
        "stock_operator_seconds": stock,
        "job_over_docker_run": job / plain,
        "stock_operator_over_docker_run": stock / plain,
        "job_over_stock_operator": job / stock,
    }
