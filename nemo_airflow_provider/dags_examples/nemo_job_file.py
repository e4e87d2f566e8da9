"""A job file on a schedule: each run of the airflow DAG is a job, which `nemo jobs list` shows."""

from datetime import UTC, datetime

from nemo_airflow_provider.dags.job_dag import job_dag

dag = job_dag(
    "nemo_job_file",
    "jobs/nightly.yaml",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example"],
)
