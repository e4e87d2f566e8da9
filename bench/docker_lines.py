"""What becomes of 100,000 lines of a container, beside the same in Airflow's own DockerOperator."""

from __future__ import annotations

from collections.abc import Mapping

from bench import engine, lines, stock_docker
from bench.registry import System, measurement


@measurement("docker_100000_lines", runs=1, warm_up=0, upstream=False)
def docker_lines(system: System) -> Mapping[str, float]:
    """Of a job of one step, and of a run of one task."""
    engine.require()
    return lines.of_both(system, engine.executor, stock_docker.dag(1))
