"""A search over hyper-parameters: one step mapped over environments, and a task that picks the best result."""

from airflow.sdk import DAG, task

from nemo_airflow_provider.operators.step import SubprocessStepOperator

TRAIN = """
import json, os
rate = float(os.environ["LEARNING_RATE"])
path = os.path.join(os.environ["NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"], "result.json")
with open(path, "w") as file:
    json.dump({"rate": rate, "loss": abs(rate - 0.01)}, file)
"""


@task
def best(results: list[dict[str, float]]) -> dict[str, float]:
    """The result with the smallest loss."""
    return min(results, key=lambda result: result["loss"])


with DAG("nemo_hyperparameters", schedule=None, tags=["example"]):
    train = SubprocessStepOperator.partial(
        task_id="train",
        command=["python3", "-c", TRAIN],
        result_file="result.json",
    ).expand(environment=[{"LEARNING_RATE": rate} for rate in ("0.1", "0.01", "0.001")])
    best(train.output)
