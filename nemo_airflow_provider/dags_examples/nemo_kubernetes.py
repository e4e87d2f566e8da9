"""Two steps in pods: image, secret, resources, and job storage that hands on what the first step makes.

Needs a Kubernetes profile with a claim in the configuration (`platform: {runtime: kubernetes}` has `cpu/default`;
`executor_defaults: {kubernetes_job: {namespace: …, storage: {pvc_name: …}}}` says where), and the secret:
`airflow variables set nemo_secret.default.hub-token …`.
"""

from airflow.sdk import DAG

from nemo_airflow_provider.operators.step import KubernetesJobStepOperator

TRAIN = """
test -n "$HUB_TOKEN" || exit 1
echo "run $RUN trains with $(cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH")"
echo "loss 0.25 after 3 epochs" > "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/report.txt"
"""

# The image may be another one in each run: `airflow dags trigger nemo_kubernetes --conf '{"image": "alpine:3"}'`.
with DAG("nemo_kubernetes", schedule=None, params={"image": "busybox:1.37"}, tags=["example"]):
    train = KubernetesJobStepOperator(
        task_id="train",
        image="{{ params.image }}",
        command=TRAIN,
        environment={"RUN": "{{ run_id }}", "HUB_TOKEN": {"from_secret": "hub-token"}},
        compute_resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        config={"batch_size": 8},
        job_storage="/storage",
    )
    report = KubernetesJobStepOperator(
        task_id="report",
        image="{{ params.image }}",
        command='cat "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/report.txt"',
        job_storage="/storage",
    )
    train >> report
