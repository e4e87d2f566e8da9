"""Many jobs in pods at once: how long they take, how many fail, and what the processor is asked for.

Beside it as many plain Kubernetes Jobs, and as many runs of Airflow's own KubernetesJobOperator.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from bench import cluster, stock, stock_kubernetes
from bench.burst import LIMIT_SECONDS, LOOK_SECONDS, end, everywhere, patiently, posted, remove, statuses
from bench.jobs import PATH, TERMINAL
from bench.lines import side_by_side
from bench.registry import Skipped, System, measurement

#: Each is a pod and a task; a node has 110 pods unless it is told otherwise.
JOBS = int(os.environ.get("NEMO_BENCH_KUBERNETES_JOBS", "50"))
SLEEP_SECONDS = 10
_COMMAND = ["sleep", str(SLEEP_SECONDS)]
_GOOD = {"completed", "success"}
_ENDED = {*TERMINAL, *_GOOD, "failed"}


@measurement("kubernetes_jobs_at_once", runs=1, warm_up=0, upstream=False, slots=JOBS)
def jobs_at_once(system: System) -> Mapping[str, float]:
    """50 that sleep for 10 s, unless `NEMO_BENCH_KUBERNETES_JOBS` says otherwise."""
    cluster.require()
    if system.slots < JOBS:
        raise Skipped(f"{JOBS} jobs at once need Postgres: this Airflow runs {system.slots} tasks at once.")
    plain = cluster.seconds_of_plain_jobs(JOBS, _COMMAND)
    with system.client() as client:
        job, operator = _of_jobs(system, client), _of_stock_runs(system, client)
    ratio = {"job_over_plain_job_seconds": job["seconds"] / plain}
    return {"jobs": JOBS, "plain_job_seconds": plain} | side_by_side(job, operator) | ratio


def _of_jobs(system: System, client: httpx.Client) -> dict[str, float]:
    batch = f"burst-{secrets.token_hex(4)}"
    step = {"name": "one", "executor": cluster.executor(_COMMAND)}
    body = {"source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
    return _measured(
        system,
        [f"{batch}-{number}" for number in range(JOBS)],
        start=lambda name: posted(client, PATH, {**body, "name": name}),
        look=lambda: statuses(client, batch, JOBS),
        stop=lambda name: client.post(f"{PATH}/{name}/cancel"),
        remove=lambda name: remove(client, name),
    )


def _of_stock_runs(system: System, client: httpx.Client) -> dict[str, float]:
    batch, dag = f"burst-{secrets.token_hex(4)}", stock_kubernetes.DAG
    return _measured(
        system,
        [f"{batch}-{number}" for number in range(JOBS)],
        start=lambda name: stock.start(client, name, json.dumps(_COMMAND), dag),
        look=lambda: stock.states(client, batch, dag),
        stop=lambda name: stock.stop(client, name, dag),
        remove=lambda name: stock.remove(client, name, dag),
    )


def _measured(
    system: System,
    names: list[str],
    *,
    start: Callable[[str], Any],
    look: Callable[[], list[str]],
    stop: Callable[[str], Any],
    remove: Callable[[str], Any],
) -> dict[str, float]:
    """From the first start to the look at which all have ended, or to the end of patience."""
    tasks, api = system.task_processor_seconds(), system.api_processor_seconds()
    began = time.perf_counter()
    most = 0
    try:
        everywhere(start, names)
        while not _all_ended(seen := patiently(look), len(names)):
            if time.perf_counter() - began > LIMIT_SECONDS:
                break
            most = max(most, cluster.running_pods())
            time.sleep(LOOK_SECONDS)
        taken = time.perf_counter() - began
        return {
            "seconds": taken,
            "errors": len(names) - sum(status in _GOOD for status in seen),
            "most_pods_running": most,
            "airflow_processor_seconds": system.task_processor_seconds() - tasks,
            "api_processor_seconds": system.api_processor_seconds() - api,
        }
    finally:
        if not _all_ended(patiently(look), len(names)):
            end(stop, names, look)
        everywhere(remove, names)


def _all_ended(seen: list[str], count: int) -> bool:
    return len(seen) == count and set(seen) <= _ENDED
