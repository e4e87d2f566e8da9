"""An engine under test: steps for it, backends over it, and what it has of this test's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from nemo_airflow_provider.backends.base import Backend, Environment, Site, Workload
from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.backend import DockerBackend
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import StepSpec
from tests.contract.harness import Harness
from tests.contract.test_backend import end, text

#: Path of the job's storage in containers that have it.
STORAGE = "/job-storage"


@dataclass
class Dock(Harness):
    """One engine, seen by one installation of its own.

    :param access: the way to the engine
    :param image: one that it has, with a shell
    :param directory: what the processes of the host share
    """

    access: Access = field(default_factory=Access)
    image: str = ""
    directory: Path = Path()

    def __post_init__(self) -> None:
        self.client = self.access.client()

    def backend(
        self, *, access: Mapping[str, Any] | None = None, site: Mapping[str, Any] | None = None, **config: Any
    ) -> DockerBackend:
        """A new instance.

        :param access: what of the way to the engine differs
        :param site: what of the installation differs
        :param config: keys of the profile
        """
        way = replace(self.access, **(access or {}))
        given = Site(connect=lambda *_: way, lock_directory=self.directory)
        storage = {"volume_name": "nemo-test", "volume_permissions_image": self.image, **config.pop("storage", {})}
        profile = {"default_task_image": self.image, "storage": storage, **config}
        return DockerBackend(DockerConfig.model_validate(profile), replace(given, **(site or {})))

    def task(
        self,
        *entrypoint: str,
        command: tuple[str, ...] = (),
        image: str | None = None,
        key: WorkloadKey | None = None,
        config: Mapping[str, Any] | None = None,
        executor: Mapping[str, Any] | None = None,
        **groups: Mapping[str, str],
    ) -> Workload:
        """A step that runs just what is said; `Harness.workload` is one that runs a script.

        :param executor: more keys of its executor
        :param groups: of its `Environment`
        """
        key = key or self.key()
        container = {"image": image, "entrypoint": list(entrypoint), "command": list(command)}
        wanted = {"provider": "cpu", "container": container, **(executor or {})}
        step = StepSpec.model_validate({"name": key.step, "executor": wanted, "config": dict(config or {})})
        self.submitted.append(key)
        return Workload(key, step, "attempt-0", Environment(**{"system": {}, **groups}), self.installation)

    def output(self, backend: Backend, workload: Workload, code: int = 0) -> str:
        """Run a step to its end; what it has written."""
        backend.submit(workload)
        seen = end(self, backend, workload.key)
        written = text(backend, workload.key).decode()
        assert seen.exit_code == code, (seen, written)
        return written

    def containers(self) -> list[Mapping[str, Any]]:
        """Those of this installation, running or not."""
        found: list[Mapping[str, Any]] = self.client.containers(all=True, filters=self._filter())
        return found

    def volumes(self) -> list[str]:
        """Names of this installation's volumes."""
        return [each["Name"] for each in self.client.volumes(filters=self._filter())["Volumes"] or []]

    def inspect(self, key: WorkloadKey | None = None) -> dict[str, Any]:
        """What the engine says of a step's container."""
        from nemo_airflow_provider.model.names import engine_name

        found: dict[str, Any] = self.client.inspect_container(engine_name(key or self.key()))
        return found

    def clear(self) -> None:
        """Remove everything of this installation."""
        from docker.errors import NotFound

        backend = self.backend()
        for each in self.containers():
            if each["State"] in ("running", "paused"):
                self.client.remove_container(each["Id"], force=True, v=True)
        for held in list(backend.held_jobs(self.installation)):
            assert backend.remove_job(held.workspace, held.run_id, held.run_key)
        for name in self.volumes():
            with suppress(NotFound):
                self.client.remove_volume(name)

    def _filter(self) -> dict[str, Any]:
        return {"label": labels.installation_filter(self.installation)}


def shell(script: str) -> dict[str, Any]:
    """The executor of a step that runs a script."""
    return {"provider": "cpu", "container": {"entrypoint": ["/bin/sh", "-c", script]}}


@contextmanager
def dock(access: Access, image: str, directory: Path) -> Iterator[Dock]:
    """An engine for one test; nothing of the test is left in it."""
    made = Dock(
        make=lambda: made.backend(),
        executor=shell,
        seconds=60,
        run_key=token_hex(8),
        access=access,
        image=image,
        directory=directory,
    )
    yield made
    made.clear()
    made.client.close()


def own_access() -> Access:
    """The engine that tests may use."""
    return Access(url=os.environ.get("DOCKER_HOST") or Access.url)
