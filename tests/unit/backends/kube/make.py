"""Workloads, profiles and what they are made into, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_airflow_provider.backends.base import Environment, Site, Workload
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.launch import Launch, Prepared
from nemo_airflow_provider.backends.kubernetes_job.body import job_of
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import StepSpec

KEY = WorkloadKey("team-a", "trainA1P.x", "3xYzRunKey", "fit@home+1.0_x", 2, 1)
SITE = Site(
    connect=lambda *_: None,
    default_task_image="registry/nhx-tasks:1",
    loopback_address="gateway.example",
    image_pull_secrets=("platform-registry", "shared"),
)


def workload(
    key: WorkloadKey = KEY,
    *,
    container: Mapping[str, Any] | None = None,
    provider: str = "cpu",
    resources: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **groups: Mapping[str, str],
) -> Workload:
    executor = {"provider": provider, "container": dict(container or {}), "resources": dict(resources or {})}
    step = StepSpec.model_validate({"name": key.step, "executor": executor, "config": dict(config or {})})
    environment = Environment(**{"system": {}, **groups})
    return Workload(key, step, "platform-job-attempt-3xYzRunKey-0", environment, "home", "platform-job-step-3-1-2")


def profile(**keys: Any) -> KubernetesJobConfig:
    return KubernetesJobConfig.model_validate(keys)


def prepared(given: Workload, config: KubernetesJobConfig | None = None, site: Site = SITE) -> Prepared:
    config = config or profile()
    cluster = Cluster(lambda: site.connect("kubernetes", None), "nemo")
    launch = Launch(config, site, cluster, "kubernetes_job", "jobs", lambda task, _: job_of(task, config))
    executor = given.step.executor
    assert executor.provider != "subprocess"
    return launch.prepare(given, executor)


def job(given: Workload, config: KubernetesJobConfig | None = None, site: Site = SITE) -> dict[str, Any]:
    config = config or profile()
    return job_of(prepared(given, config, site).task, config)


def pod_spec(given: Workload, config: KubernetesJobConfig | None = None, site: Site = SITE) -> dict[str, Any]:
    spec: dict[str, Any] = job(given, config, site)["spec"]["template"]["spec"]
    return spec


def container(given: Workload, config: KubernetesJobConfig | None = None, site: Site = SITE) -> dict[str, Any]:
    [found] = pod_spec(given, config, site)["containers"]
    assert isinstance(found, dict)
    return found
