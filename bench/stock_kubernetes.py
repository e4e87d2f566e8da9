"""DAGs of Airflow's own KubernetesJobOperator, against which steps in pods are measured."""

from __future__ import annotations

from pathlib import Path

#: As the operator is by itself: it looks at its Job every 10 s. And one that looks every second.
DAG, QUICK_DAG = "bench-kubernetes", "bench-kubernetes-quick"

#: Rendered natively, since the command is a list.
_FILE = """
from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk import DAG

for name, poll in (({dag!r}, {{}}), ({quick!r}, {{"job_poll_interval": 1}})):
    with DAG(
        name,
        schedule=None,
        catchup=False,
        max_active_runs=1000,
        max_active_tasks=1000,
        render_template_as_native_obj=True,
    ):
        KubernetesJobOperator(
            task_id="task-0",
            name="bench",
            image={image!r},
            cmds="{{{{ dag_run.conf['command'] }}}}",
            namespace={namespace!r},
            kubernetes_conn_id={connection!r},
            wait_until_job_complete=True,
            get_logs=True,
            **poll,
        )
"""


def write(dags: Path, image: str, namespace: str, connection: str) -> None:
    """Put the DAGs into Airflow's folder of DAGs; the folder is created.

    :param image: of the pods
    :param namespace: of the Jobs
    :param connection: Airflow's, by which they are made
    """
    dags.mkdir(parents=True, exist_ok=True)
    text = _FILE.format(dag=DAG, quick=QUICK_DAG, image=image, namespace=namespace, connection=connection)
    (dags / "bench_stock_kubernetes.py").write_text(text)
