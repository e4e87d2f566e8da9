"""What steps in pods cost an Airflow while they run and say nothing, beside Airflow's own KubernetesJobOperator."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

import httpx

from bench import cluster, stock, stock_kubernetes
from bench.burst import everywhere, posted, remove
from bench.jobs import PATH, TERMINAL
from bench.lines import side_by_side
from bench.registry import System, measurement
from bench.running import observed, status

#: As many as run at once on SQLite, too.
STEPS = 8
#: Ends when it is told to, which a first process does not by itself.
_COMMAND = ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]


@measurement("kubernetes_running_steps", runs=1, warm_up=0, upstream=False)
def running_steps(system: System) -> Mapping[str, float]:
    """8 of ours, then 8 of Airflow's."""
    cluster.require()
    with system.client() as client:
        return side_by_side(_of_jobs(system, client), _of_stock_runs(system, client))


def _of_jobs(system: System, client: httpx.Client) -> dict[str, float]:
    names = [f"running-{secrets.token_hex(4)}-{number}" for number in range(STEPS)]
    step = {"name": "one", "executor": cluster.executor(_COMMAND)}
    body = {"source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
    found = observed(
        system,
        STEPS,
        start=lambda: everywhere(lambda name: posted(client, PATH, {**body, "name": name}), names),
        are_running=lambda: all(status(client, name) == "active" for name in names),
        stop=lambda: everywhere(lambda name: client.post(f"{PATH}/{name}/cancel"), names),
        have_ended=lambda: all(status(client, name) in (*TERMINAL, None) for name in names),
    )
    everywhere(lambda name: remove(client, name), names)
    return _of_airflow(found)


def _of_stock_runs(system: System, client: httpx.Client) -> dict[str, float]:
    names, dag = [f"running-{secrets.token_hex(4)}-{number}" for number in range(STEPS)], stock_kubernetes.DAG
    command = json.dumps(_COMMAND)
    found = observed(
        system,
        STEPS,
        start=lambda: everywhere(lambda name: stock.start(client, name, command, dag), names),
        are_running=lambda: stock.running(client, dag) == cluster.running_pods() == STEPS,
        stop=lambda: everywhere(lambda name: stock.stop(client, name, dag), names),
        have_ended=lambda: stock.running(client, dag) == cluster.running_pods() == 0,
    )
    everywhere(lambda name: stock.remove(client, name, dag), names)
    return _of_airflow(found)


def _of_airflow(found: Mapping[str, float]) -> dict[str, float]:
    """A pod has no supervisor beside Airflow's processes."""
    return {name: number for name, number in found.items() if name != "megabytes_per_workload_supervisor"}
