"""Jobs on another server; each run's conf says which and what."""

from __future__ import annotations

from airflow.sdk import DAG

from nemo_airflow_provider.operators.nemo_job import NemoJobOperator

for server in ("ours", "upstream"):
    with DAG(f"remote_{server}", schedule=None, render_template_as_native_obj=True):
        NemoJobOperator(
            task_id="train",
            job="{{ dag_run.conf['job'] }}",
            name="{{ dag_run.conf.get('name') }}",
            nemo_jobs_conn_id=f"jobs_{server}",
            poll_interval=0.3,
            max_log_lines=10_000,
            retries=3,
            retry_delay=1.0,
        )
