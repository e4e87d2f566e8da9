"""A step in a container: image, secret, resources, and a result that an ordinary task goes on with.

Needs a Docker engine on the worker's host, a Docker profile in the configuration (`platform: {runtime: docker}` has
`cpu/default`), and the secret: `airflow variables set nemo_secret.default.hub-token …`.
"""

from airflow.sdk import DAG, task

from nemo_airflow_provider.operators.step import DockerStepOperator

TRAIN = """
test -n "$HUB_TOKEN" || exit 1
echo "run $RUN trains with $(cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH")"
echo '{"loss": 0.25, "epochs": 3}' > "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/result.json"
"""


@task
def report(result: dict[str, float]) -> str:
    """What came out of it."""
    return f"loss {result['loss']} after {result['epochs']} epochs"


# The image may be another one in each run: `airflow dags trigger nemo_docker --conf '{"image": "alpine:3"}'`.
with DAG("nemo_docker", schedule=None, params={"image": "busybox:1.37"}, tags=["example"]):
    train = DockerStepOperator(
        task_id="train",
        image="{{ params.image }}",
        command=TRAIN,
        environment={"RUN": "{{ run_id }}", "HUB_TOKEN": {"from_secret": "hub-token"}},
        compute_resources={"limits": {"cpu": "500m", "memory": "256Mi"}},
        config={"batch_size": 8},
        result_file="result.json",
    )
    report(train.output)
