"""A pod's template → the body of its Kubernetes Job (job specification contract §7.3): pure."""

from __future__ import annotations

from typing import Any

from nemo_airflow_provider.backends.kube.metadata import metadata_of
from nemo_airflow_provider.backends.kube.pod import PodTask, template_of
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig

#: The cluster's own timer after the end, at least: the step's runner must see how it ended, also one that comes back.
_LEAST_KEPT_SECONDS = 600


def job_of(task: PodTask, config: KubernetesJobConfig) -> dict[str, Any]:
    """A Job of one pod that is never started a second time."""
    metadata = config.job_metadata
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata_of(task.name, task.own, metadata.labels, metadata.annotations),
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": max(config.ttl_seconds_after_finished, _LEAST_KEPT_SECONDS),
            "template": template_of(task, config),
        },
    }
