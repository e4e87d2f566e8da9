"""A job on another server as a task: its log comes into the task log, its end is the task's.

Needs a connection `nemo_jobs_default` of type "NeMo jobs API"; its host is the base URL of a Helix platform, or of
another Airflow with this package.
"""

from __future__ import annotations

from airflow.sdk import DAG, task

from nemo_airflow_provider.operators.nemo_job import NemoJobOperator

TRAINING = "import sys; print('learning rate', sys.argv[1]); print('done')"

with DAG("nemo_job_remote", schedule=None, params={"learning_rate": 0.1}, tags=["example"]):
    train = NemoJobOperator(
        task_id="train",
        job={
            "platform_spec": {
                "steps": [
                    {
                        "name": "train",
                        "executor": {
                            "provider": "subprocess",
                            "command": ["python3", "-u", "-c", TRAINING, "{{ params.learning_rate }}"],
                        },
                    }
                ]
            },
        },
        timeout=3600,
        retries=3,
    )

    @task
    def report(job: dict[str, str]) -> None:
        """Tell what became of the job."""
        print(f"job {job['name']} ({job['id']}): {job['status']}")

    report(train.output)
