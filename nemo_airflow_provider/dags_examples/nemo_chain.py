"""Two steps: the first leaves its result in a file, which is its XCom; the second reads it and the shared storage."""

from airflow.sdk import DAG

from nemo_airflow_provider.operators.step import SubprocessStepOperator

TRAIN = """
echo "the weights" > "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/model.bin"
echo '{"loss": 0.25, "epochs": 3}' > "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/result.json"
"""

with DAG("nemo_chain", schedule=None, tags=["example"]):
    train = SubprocessStepOperator(
        task_id="train",
        command=TRAIN,
        result_file="result.json",
        multiple_outputs=True,
        job_storage="/storage",
    )
    SubprocessStepOperator(
        task_id="evaluate",
        command='echo "loss $LOSS of"; cat "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/model.bin"',
        environment={"LOSS": train.output["loss"], "EPOCHS": "{{ ti.xcom_pull('train')['epochs'] }}"},
        job_storage="/storage",
    )
