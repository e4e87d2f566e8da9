"""What the contract suite needs of a backend: a way to make one, and a step that runs a shell script in it.

A new backend adds one function to `HARNESSES`; `conftest.py` runs every test with each.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.base import Backend, Environment, Workload
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import StepSpec
from tests.stack import engines


@dataclass
class Harness:
    """One backend under test.

    :param make: a new instance over the same engine, as another worker process has it
    :param executor: the executor of a step that runs a script with `/bin/sh -c`
    :param seconds: how long the engine may take for anything
    :param run_key: told apart from other tests that share the engine
    """

    make: Callable[[], Backend]
    executor: Callable[[str], dict[str, Any]]
    seconds: float
    run_key: str
    submitted: list[WorkloadKey] = field(default_factory=list)
    #: Of this test alone, though others may share the engine.
    installation: str = field(default_factory=lambda: secrets.token_hex(8))
    #: Whether stdout and stderr can be told apart.
    has_streams: bool = True
    #: What each step's own environment has.
    step: Mapping[str, str] = field(default_factory=dict)

    def key(self, step: str = "train", generation: int = 0, start: int = 0) -> WorkloadKey:
        return WorkloadKey("default", "contract", self.run_key, step, generation, start)

    def workload(
        self,
        script: str,
        key: WorkloadKey | None = None,
        config: Mapping[str, Any] | None = None,
        **groups: Mapping[str, str],
    ) -> Workload:
        key = key or self.key()
        step = StepSpec.model_validate(
            {"name": key.step, "executor": self.executor(script), "config": dict(config or {})}
        )
        self.submitted.append(key)
        system = {"NEMO_JOB_ID": key.job, "NEMO_JOB_TASK": key.task}
        groups = {"system": system, **groups, "step": {**self.step, **groups.get("step", {})}}
        environment = Environment(**groups)
        return Workload(key, step, "attempt-0", environment, self.installation)


@contextmanager
def subprocess_harness(directory: Path) -> Iterator[Harness]:
    """Processes of this host."""
    from nemo_airflow_provider.backends.subprocess.backend import SubprocessBackend
    from nemo_airflow_provider.backends.subprocess.config import SubprocessConfig

    config = SubprocessConfig(working_directory=str(directory / "work"))
    yield Harness(
        make=lambda: SubprocessBackend(config),
        executor=lambda script: {"provider": "subprocess", "command": ["/bin/sh", "-c", script]},
        seconds=60,
        run_key="contractrun",
    )


@contextmanager
def docker_harness(directory: Path) -> Iterator[Harness]:
    """Containers of the engine that tests may use."""
    from nemo_airflow_provider.backends.base import Site
    from nemo_airflow_provider.backends.docker.backend import DockerBackend
    from nemo_airflow_provider.backends.docker.config import DockerConfig
    from nemo_airflow_provider.hooks.docker import connect
    from tests.stack import docker

    engines.require("docker")
    image = docker.image()
    config = DockerConfig.model_validate(
        {"default_task_image": image, "storage": {"volume_name": "nemo-test", "volume_permissions_image": image}}
    )
    site = Site(connect=lambda _, connection: connect(connection), lock_directory=directory)
    run_key = secrets.token_hex(8)
    yield Harness(
        make=lambda: DockerBackend(config, site),
        executor=lambda script: {"provider": "cpu", "container": {"entrypoint": ["/bin/sh", "-c", script]}},
        seconds=60,
        run_key=run_key,
        step={"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/job-storage"},
    )
    DockerBackend(config, site).remove_job("default", "contract", run_key)


@contextmanager
def kubernetes_harness(directory: Path) -> Iterator[Harness]:
    """Jobs in a namespace that tests share, of the cluster that they may use."""
    from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
    from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
    from tests.stack import kubernetes

    engines.require("kubernetes")
    home = kubernetes.shared()
    config = KubernetesJobConfig.model_validate(
        {
            "namespace": home.namespace,
            "default_task_image": kubernetes.image(),
            "storage": {"pvc_name": home.claim.name, "volume_permissions_image": kubernetes.image()},
        }
    )
    site, run_key = kubernetes.site(), secrets.token_hex(8)
    yield Harness(
        make=lambda: KubernetesJobBackend(config, site),
        executor=lambda script: {"provider": "cpu", "container": {"entrypoint": ["/bin/sh", "-c", script]}},
        seconds=60,
        run_key=run_key,
        step={"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/job-storage"},
        has_streams=False,
    )
    KubernetesJobBackend(config, site).remove_job("default", "contract", run_key)


HARNESSES = {"docker": docker_harness, "kubernetes_job": kubernetes_harness, "subprocess": subprocess_harness}
