"""DAGs of Airflow's own DockerOperator, against which steps in Docker containers are measured."""

from __future__ import annotations

from pathlib import Path

#: How many tasks a run may have: a DAG for each.
TASKS = (1, 3)

#: With `auto_remove`, as `docker run --rm` has it; everything else is what the operator does by itself.
_FILE = """
from airflow.providers.docker.operators.docker import DockerOperator
from airflow.sdk import DAG, chain

for count in {tasks}:
    with DAG("bench-docker-" + str(count), schedule=None, catchup=False):
        tasks = [
            DockerOperator(
                task_id="task-" + str(number),
                image={image!r},
                command="{{{{ dag_run.conf['command'] }}}}",
                network_mode={network!r},
                auto_remove="force",
            )
            for number in range(count)
        ]
        chain(*tasks)
"""


def dag(tasks: int) -> str:
    """The DAG with so many tasks, one after the other.

    :param tasks: one of `TASKS`
    """
    return f"bench-docker-{tasks}"


def write(dags: Path, image: str, network: str) -> None:
    """Put the DAGs into Airflow's folder of DAGs; the folder is created.

    :param image: of the containers
    :param network: of the containers
    """
    dags.mkdir(parents=True, exist_ok=True)
    (dags / "bench_stock_docker.py").write_text(_FILE.format(image=image, network=network, tasks=TASKS))
