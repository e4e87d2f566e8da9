"""Steps among ordinary tasks: a download that is tried again when it fails, and a branch on what it found."""

from airflow.sdk import DAG, task

from nemo_airflow_provider.operators.step import SubprocessStepOperator

# Fails twice; the job's storage outlives each start.
DOWNLOAD = """
echo start >> "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts"
starts=$(wc -l < "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts")
echo "start $starts"
test "$starts" -ge 3 || exit 1
echo "$starts" > "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/rows.txt"
"""


@task.branch
def enough(rows: str) -> str:
    """Which step follows."""
    return "train" if int(rows) > 2 else "give_up"


@task
def give_up() -> None:
    """Nothing to train on."""


with DAG("nemo_mixed", schedule=None, tags=["example"]):
    download = SubprocessStepOperator(
        task_id="download",
        command=DOWNLOAD,
        result_file="rows.txt",
        step_retries=3,
        step_retry_delay=1,
    )
    train = SubprocessStepOperator(task_id="train", command=["echo", "trained on", download.output])
    enough(download.output) >> [train, give_up()]
