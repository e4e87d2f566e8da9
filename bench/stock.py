"""What our steps are measured against: a DAG of one BashOperator, as anybody writes it, and its runs."""

from __future__ import annotations

from pathlib import Path

import httpx

DAG = "bench-stock"
_PAGE = 100  # Airflow's most

_FILE = f"""
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG({DAG!r}, schedule=None, catchup=False, max_active_runs=1000, max_active_tasks=1000):
    BashOperator(task_id="one", bash_command="{{{{ dag_run.conf['command'] }}}}")
"""


def write(dags: Path) -> None:
    """Put the DAG into Airflow's folder of DAGs; the folder is created."""
    dags.mkdir(parents=True, exist_ok=True)
    (dags / "bench_stock.py").write_text(_FILE)


def start(client: httpx.Client, run: str, command: str, dag: str = DAG) -> None:
    """Start a run under this id, whose task runs a command."""
    body = {"dag_run_id": run, "logical_date": None, "conf": {"command": command}}
    answer = client.post(_runs(dag), json=body)
    if answer.status_code != httpx.codes.CONFLICT:  # it is there from a call before
        answer.raise_for_status()


def states(client: httpx.Client, batch: str, dag: str = DAG) -> list[str]:
    """The states of the runs whose id begins with `batch`."""
    found: list[str] = []
    seen = 0
    while True:
        query: dict[str, str | int] = {"limit": _PAGE, "offset": seen, "order_by": "-run_after"}
        page = client.get(_runs(dag), params=query).raise_for_status().json()
        rows = page["dag_runs"]
        found += [row["state"] for row in rows if row["dag_run_id"].startswith(batch)]
        seen += len(rows)
        if not rows or seen >= page["total_entries"]:
            return found


def running(client: httpx.Client, dag: str = DAG) -> int:
    """How many tasks of the DAG are running."""
    path = f"{_runs(dag)}/~/taskInstances"
    query: dict[str, str | int] = {"state": "running", "limit": 1}
    return int(client.get(path, params=query).raise_for_status().json()["total_entries"])


def stop(client: httpx.Client, run: str, dag: str = DAG) -> None:
    """Mark a run failed, which ends its task."""
    client.patch(f"{_runs(dag)}/{run}", json={"state": "failed"})


def remove(client: httpx.Client, run: str, dag: str = DAG) -> None:
    """Delete a run, as far as that is possible."""
    client.delete(f"{_runs(dag)}/{run}")


def _runs(dag: str) -> str:
    return f"/api/v2/dags/{dag}/dagRuns"
