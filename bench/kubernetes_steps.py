"""A job whose step is a pod, beside a plain Kubernetes Job and beside Airflow's own KubernetesJobOperator.

All of them run `true` in a pod of the same image, in turns, so that each sample compares what the machine did at the
same time.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from bench import cluster, lines, stock_kubernetes, stock_runs
from bench.jobs import seconds_to_complete
from bench.registry import System, measurement

_COMMAND = ["true"]


@measurement("kubernetes_1_step", runs=5, warm_up=1, upstream=False)
def one_step(system: System) -> Mapping[str, float]:
    """One pod."""
    cluster.require()
    plain = cluster.seconds_of_plain_jobs(1, _COMMAND)
    job = seconds_to_complete(system, 1, cluster.executor(_COMMAND))
    with system.client() as client:
        stock, quick = (
            stock_runs.seconds_to_succeed(client, f"bench-{secrets.token_hex(6)}", dag, _COMMAND)
            for dag in (stock_kubernetes.DAG, stock_kubernetes.QUICK_DAG)
        )
    return {
        "job_seconds": job,
        "plain_job_seconds": plain,
        "stock_operator_seconds": stock,
        "quick_stock_operator_seconds": quick,
        "job_over_plain_job": job / plain,
        "stock_operator_over_plain_job": stock / plain,
        "job_over_stock_operator": job / stock,
        "job_over_quick_stock_operator": job / quick,
    }


@measurement("kubernetes_100000_lines", runs=1, warm_up=0, upstream=False)
def kubernetes_lines(system: System) -> Mapping[str, float]:
    """What a pod prints, of a job of one step and of a run of one task."""
    cluster.require()
    return lines.of_both(system, cluster.executor, stock_kubernetes.DAG)
