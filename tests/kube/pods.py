"""A namespace under test: steps for it, backends over it, and what it has of this test's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from nemo_airflow_provider.backends.base import Backend, Environment, Observation, Phase, Workload
from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube.cluster import selector
from nemo_airflow_provider.backends.kubernetes_job.backend import KubernetesJobBackend
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
from nemo_airflow_provider.model.names import WorkloadKey, engine_name
from nemo_airflow_provider.model.spec import StepSpec
from tests.contract.harness import Harness
from tests.contract.test_backend import end, text
from tests.stack import kubernetes
from tests.stack.kubernetes import Home, kubectl
from tests.waiting import wait_until

#: Path of the job's storage in pods that have it.
STORAGE = "/job-storage"
WITH_STORAGE = {"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": STORAGE}


def shell(script: str, **more: Any) -> dict[str, Any]:
    """The executor of a step that runs a script."""
    return {"provider": "cpu", "container": {"entrypoint": ["/bin/sh", "-c", script]}, **more}


@dataclass
class Pods(Harness):
    """One namespace, seen by one installation of its own."""

    home: Home | None = None

    @property
    def namespace(self) -> str:
        assert self.home is not None
        return self.home.namespace

    def backend(self, site: Any = None, **config: Any) -> KubernetesJobBackend:
        """A new instance.

        :param config: keys of the profile
        """
        assert self.home is not None
        storage = {
            "pvc_name": self.home.claim.name,
            "volume_permissions_image": kubernetes.image(),
            **config.pop("storage", {}),
        }
        profile = {
            "namespace": self.namespace,
            "default_task_image": kubernetes.image(),
            "graceful_shutdown_timeout_seconds": 3,
            "storage": storage,
            **config,
        }
        return KubernetesJobBackend(KubernetesJobConfig.model_validate(profile), site or kubernetes.site())

    def task(
        self,
        executor: Mapping[str, Any],
        key: WorkloadKey | None = None,
        config: Mapping[str, Any] | None = None,
        **groups: Mapping[str, str],
    ) -> Workload:
        """A step of just this executor; `Harness.workload` is one that runs a script."""
        key = key or self.key()
        step = StepSpec.model_validate({"name": key.step, "executor": dict(executor), "config": dict(config or {})})
        self.submitted.append(key)
        return Workload(key, step, "attempt-0", Environment(**{"system": {}, **groups}), self.installation)

    def output(self, backend: Backend, workload: Workload, code: int = 0) -> str:
        """Run a step to its end; what it has written."""
        backend.submit(workload)
        seen = end(self, backend, workload.key)
        written = text(backend, workload.key).decode()
        assert seen.exit_code == code, (seen, written)
        return written

    def seen(self, backend: Backend, key: WorkloadKey, what: str, **wanted: Any) -> Observation:
        """The first look at a workload whose fields are as wanted.

        :param wanted: of the observation; a function is asked, anything else is compared
        """

        def look() -> Observation | None:
            found = backend.observe(key)
            fits = [
                value(getattr(found, name)) if callable(value) else getattr(found, name) == value
                for name, value in wanted.items()
            ]
            return found if all(fits) else None

        return wait_until(look, 90, what, pause_seconds=0.2)  # type: ignore[return-value]

    def runs(self, backend: Backend, key: WorkloadKey | None = None) -> None:
        """Wait until a workload runs."""
        self.seen(backend, key or self.key(), "it to run", phase=Phase.RUNNING)

    def things(self, kind: str) -> list[dict[str, Any]]:
        """What the namespace has of this installation."""
        wanted = selector(labels.of_installation(self.installation))
        found = kubectl("-n", self.namespace, "get", kind, "-l", wanted, "-o", "json")
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return items

    def gone(self, kind: str) -> None:
        """Wait until the namespace has nothing of a kind of this installation."""
        wait_until(lambda: not self.things(kind), 60, f"{kind} to be gone", pause_seconds=0.2)

    def pod(self, key: WorkloadKey | None = None) -> dict[str, Any]:
        """The pod of a workload."""
        [found] = [pod for pod in self.things("pods") if pod["metadata"]["name"].startswith(self.name(key))]
        return found

    def job(self, key: WorkloadKey | None = None) -> dict[str, Any]:
        """The Job of a workload."""
        found: dict[str, Any] = json.loads(kubectl("-n", self.namespace, "get", "job", self.name(key), "-o", "json"))
        return found

    def name(self, key: WorkloadKey | None = None) -> str:
        return engine_name(key or self.key())

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return kubectl("-n", self.namespace, *words, stdin=stdin)

    def clear(self) -> None:
        """Remove everything of this installation."""
        wanted = selector(labels.of_installation(self.installation))
        self.kubectl("delete", "jobs", "-l", wanted, "--wait=false")
        self.kubectl("delete", "pods", "-l", wanted, "--wait=false", "--grace-period=1")
        self.kubectl("delete", "configmaps,secrets", "-l", wanted, "--wait=false")


@contextmanager
def pods(home: Home | None = None) -> Iterator[Pods]:
    """A namespace for one test, which others may share; nothing of the test is left in it."""
    made = Pods(
        make=lambda: made.backend(),
        executor=shell,
        seconds=60,
        run_key=token_hex(8),
        has_streams=False,
        home=home or kubernetes.shared(),
    )
    yield made
    made.clear()
