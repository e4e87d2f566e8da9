"""What the tests of the Docker backend's pure parts are made of."""

from __future__ import annotations

from typing import Any

from nemo_airflow_provider.backends.base import Environment, Workload
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import ContainerExecutor, CpuExecutor, GpuExecutor, StepSpec

KEY = WorkloadKey("team-a", "trainA1P.x", "3xYzRunKey", "fit@home+1.0_x", 2, 1)


def config(**keys: Any) -> DockerConfig:
    """A profile's `config:`."""
    return DockerConfig.model_validate(keys)


def executor(provider: str = "cpu", container: dict[str, Any] | None = None, **resources: Any) -> ContainerExecutor:
    """A step's executor that asks for `resources`."""
    spec = {"provider": provider, "container": container or {"image": "busybox:1"}, "resources": resources}
    return (CpuExecutor if provider == "cpu" else GpuExecutor).model_validate(spec)


def workload(key: WorkloadKey = KEY, provider: str = "cpu", **environment: dict[str, str]) -> Workload:
    """A workload of a step that runs busybox."""
    step = StepSpec.model_validate(
        {"name": key.step, "executor": {"provider": provider, "container": {"image": "busybox:1"}}}
    )
    return Workload(key, step, "platform-job-attempt-3xYzRunKey-0", Environment({}, **environment), "home")
