"""One step of a job in an Airflow DAG: a command, its environment with a template, and its configuration."""

from airflow.sdk import DAG

from nemo_airflow_provider.operators.step import SubprocessStepOperator

with DAG("nemo_one_step", schedule=None, tags=["example"]):
    SubprocessStepOperator(
        task_id="greet",
        command='echo "Hello from $RUN"; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"',
        environment={"RUN": "{{ run_id }}"},
        config={"batch_size": 8},
    )
