"""The Docker backend: a step is a container of an engine, usually the one on the worker's host."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.base import (
    Backend,
    Chunk,
    Observation,
    Phase,
    Position,
    Signal,
    Site,
    StopReason,
    Workload,
)
from nemo_airflow_provider.backends.container.environment import SCRATCH
from nemo_airflow_provider.backends.container.places import TASK_DIRECTORY
from nemo_airflow_provider.backends.docker import control, labels, logs
from nemo_airflow_provider.backends.docker.archive import beginning
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.docker.diagnosis import interrupted, observed
from nemo_airflow_provider.backends.docker.engine import DockerEngine
from nemo_airflow_provider.backends.docker.gpus import GpuPool
from nemo_airflow_provider.backends.docker.holdings import DockerHoldings
from nemo_airflow_provider.backends.docker.images import Images
from nemo_airflow_provider.backends.docker.launch import Launch
from nemo_airflow_provider.backends.docker.reports import DockerReports
from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsResultFile
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model.names import WorkloadKey

if TYPE_CHECKING:
    from docker import APIClient

#: Between two looks for a wake-up while a thread waits for the container's end.
_LOOK_SECONDS = 0.05
#: Until an engine that does not answer is worth another question.
_AWAY_SECONDS = 1.0
#: How often an engine that cannot look into a container that has ended is asked.
_MOST_UNTOLD = 30


class DockerBackend(DockerHoldings, DockerReports, Backend, SupportsFreeze, SupportsResultFile):
    """Containers of one engine; whoever may use the engine may use every verb."""

    noun = "Container"
    has_active_timer = False
    lost_text = "Container not found: it was removed by somebody, or by the engine"

    def __init__(self, config: DockerConfig, site: Site) -> None:
        engine = DockerEngine(lambda: site.connect("docker", config.docker_conn_id))
        super().__init__(config, engine)
        self._site = site
        self._images: Images | None = None
        self._gpus: GpuPool | None = None
        self._launch: Launch | None = None
        #: How often the engine could not look into a container that has ended, by its id.
        self._untold: Counter[str] = Counter()

    def identity(self) -> str:
        """Host name and id of the engine."""
        return self._engine.identity()

    def find(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        """See `Backend.find`."""
        with self._engine.asked() as client:
            found = client.containers(all=True, filters={"label": labels.step_filter(key)})
        keys = [labels.key_of(each.get("Labels") or {}) for each in found]
        return [other for other in keys if other is not None and other.run_id == key.run_id]

    def submit(self, workload: Workload) -> Mapping[str, Any]:
        """See `Backend.submit`; returns when the engine has started the container."""
        if self._launch is None:
            images, pool = self._image_store(), self._gpu_pool()
            self._launch = Launch(self._config, self._site, self._engine, images, pool)
        with self._engine.asked() as client:
            return self._launch.begin(client, workload)

    def observe(self, key: WorkloadKey) -> Observation:
        """See `Backend.observe`."""
        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
            if container is None:
                return Observation(Phase.ABSENT)
            seen = observed(container, None)
            if seen.phase is Phase.ENDED:
                seen = observed(container, self._why_stopped(client, container))
            return seen

    def _why_stopped(self, client: APIClient, container: Mapping[str, Any]) -> StopReason | None:
        if self._was_asked(client, container):
            return "asked"
        began_at = self._engine.began_at(client)
        is_so = interrupted(container, began_at, lambda: bool(client.info().get("LiveRestoreEnabled")))
        return "interrupted" if is_so else None

    def _was_asked(self, client: APIClient, container: Mapping[str, Any]) -> bool:
        from docker.errors import APIError

        try:
            return control.was_asked(client, container)
        except APIError:
            # Such as one of whose volumes is gone: how it ended is known all the same.
            self._untold[container["Id"]] += 1
            if self._untold[container["Id"]] < _MOST_UNTOLD:
                raise
            return False

    def read_logs(self, key: WorkloadKey, position: Position | None, stop: Signal) -> Iterator[Chunk | None]:
        """See `Backend.read_logs`; a position is a time of the engine, and how much from there on is known."""
        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
        if container is None or observed(container, None).phase is Phase.PENDING:
            return
        yield from logs.read(
            self._engine.access,
            container["Id"],
            key.task,
            position,
            stop,
            lambda: not self.observe(key).phase.lives,
        )

    def read_file(self, key: WorkloadKey, path: str, most_bytes: int) -> bytes | None:
        """See `SupportsResultFile.read_file`; links of the container lead nowhere outside of it."""
        from docker.errors import NotFound

        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
            if container is None:
                return None
            try:
                stream, _ = client.get_archive(container["Id"], str(PurePosixPath(_scratch(container), path)))
                with closing(stream):
                    return beginning(stream, most_bytes)
            except NotFound:
                return None

    def stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        """See `Backend.stop`; what waits for an image or a GPU waits no longer."""
        if self._images is not None:
            self._images.give_up()
        if self._gpus is not None:
            self._gpus.leave(key)
        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
            if container is None:
                return
            phase = observed(container, None).phase
            if phase is Phase.PENDING:
                client.remove_container(container["Id"], force=True, v=True)
            elif phase is Phase.RUNNING:
                control.note_stop(client, container)
                if container["State"]["Paused"]:
                    self._switch(client, key, container["Id"], frozen=False)
                control.ask_to_stop(self._engine.access, container["Id"], math.ceil(grace_seconds))

    def freeze(self, key: WorkloadKey) -> None:
        """See `SupportsFreeze.freeze`."""
        self._wish_frozen(key, True)

    def thaw(self, key: WorkloadKey) -> None:
        """See `SupportsFreeze.thaw`."""
        self._wish_frozen(key, False)

    def _wish_frozen(self, key: WorkloadKey, frozen: bool) -> None:
        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
            if container is not None and container["State"]["Running"] and container["State"]["Paused"] is not frozen:
                self._switch(client, key, container["Id"], frozen=frozen)

    def _switch(self, client: APIClient, key: WorkloadKey, container: str, *, frozen: bool) -> None:
        from docker.errors import APIError

        try:
            (client.pause if frozen else client.unpause)(container)
        except APIError:
            now = self._engine.inspect(client, key)
            # It has ended meanwhile, or somebody else was faster.
            if now is not None and now["State"]["Running"] and now["State"]["Paused"] is not frozen:
                raise

    def cleanup(self, key: WorkloadKey) -> None:
        """Remove the container and its volumes, unless it runs."""
        from docker.errors import APIError

        with self._engine.asked() as client:
            container = self._engine.inspect(client, key)
            if container is None or observed(container, None).phase is Phase.RUNNING:
                return
            try:
                client.remove_container(container["Id"], v=True)
            except APIError as error:
                # Somebody else removes it, or has done so.
                if error.status_code not in (404, 409):
                    raise

    def wait(self, key: WorkloadKey, seconds: float, wake: Signal) -> None:
        """See `Backend.wait`; the engine tells of the end."""
        try:
            with self._engine.asked() as client:
                container = self._engine.inspect(client, key)
        except BackendError:
            wake.wait(min(_AWAY_SECONDS, seconds))
            return
        if container is None or observed(container, None).phase is not Phase.RUNNING:
            if container is None or container["State"]["Status"] == "created":
                wake.wait(seconds)
            return
        ended = threading.Event()
        arguments = (container["Id"], seconds, ended)
        threading.Thread(target=self._await_end, args=arguments, name="nemo-docker-wait", daemon=True).start()
        left = seconds
        while left > 0 and not wake.is_set() and not ended.is_set():
            wake.wait(min(_LOOK_SECONDS, left))
            left -= _LOOK_SECONDS

    def _await_end(self, container: str, seconds: float, ended: threading.Event) -> None:
        from docker.errors import APIError

        try:
            access = self._engine.access
            with suppress(APIError, BackendError), access.told(), closing(access.client()) as client:
                client.wait(container, timeout=seconds)
        finally:
            ended.set()

    def _image_store(self) -> Images:
        if self._images is None:
            self._images = Images(self._engine.access, self._config.ttl_seconds_image_pull)
        return self._images

    def _gpu_pool(self) -> GpuPool:
        if self._gpus is None:
            self._gpus = GpuPool(self._line(), self._devices)
        return self._gpus


def _scratch(container: Mapping[str, Any]) -> str:
    """Where a container has its ephemeral storage."""
    return control.variable(container, SCRATCH) or TASK_DIRECTORY
