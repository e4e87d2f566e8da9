"""From a step to a container that runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.base import Site, Workload
from nemo_airflow_provider.backends.container import environment
from nemo_airflow_provider.backends.container.places import Places, places_of
from nemo_airflow_provider.backends.docker import gpus, labels, storage
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.body import Task, creation_of, loopback_for
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.docker.engine import DockerEngine, made, refusal
from nemo_airflow_provider.backends.docker.images import Images
from nemo_airflow_provider.backends.docker.refusals import judged
from nemo_airflow_provider.backends.docker.resources import resources_of
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import ContainerExecutor, ProcessExecutor

if TYPE_CHECKING:
    from docker import APIClient

_BACKEND = "docker"
_TRIES = 3
#: What the engine puts into every container, as the process that begins the command.
_INIT = "/sbin/docker-init"


class Launch:
    """Starts containers of one profile."""

    def __init__(
        self, config: DockerConfig, site: Site, engine: DockerEngine, images: Images, pool: gpus.GpuPool
    ) -> None:
        self._config = config
        self._site = site
        self._engine = engine
        self._images = images
        self._pool = pool
        #: How often the engine has refused to start a container, by its id.
        self._refusals: dict[str, int] = {}

    def begin(self, client: APIClient, workload: Workload) -> Mapping[str, Any]:
        """Have the workload's container run; what is there already is adopted.

        :return: `status_details` of the new workload
        :raises StartError: it cannot be started as written
        :raises CapacityError: something is waited for
        """
        executor = workload.step.executor
        if isinstance(executor, ProcessExecutor):
            raise StartError(f"Step '{workload.step.name}' is a process of a host; a Docker profile runs images only.")
        container = self._engine.inspect(client, workload.key) or self._create(client, workload, executor)
        if container["State"]["Status"] == "created":
            gpus.claim(client, container)
            self._start(client, workload, container["Id"])
        return {
            "container_id": container["Id"][:12],
            "container_name": container["Name"].lstrip("/"),
            "image": container["Config"]["Image"],
        }

    def _create(self, client: APIClient, workload: Workload, executor: ContainerExecutor) -> Mapping[str, Any]:
        environment.check_words(executor.container)
        resources = resources_of(workload.step.name, executor, self._config)
        image = executor.container.image or self._config.default_task_image or self._site.default_task_image
        places = self._places(workload)
        composed = self._environment(workload, places)
        self._images.require(client, image)
        self._have_volumes(client)
        task = Task(
            executor=executor,
            image=image,
            labels={},
            environment=composed,
            resources=resources,
            task_directory=places.scratch,
            config_directory=places.config_directory,
            job_storage=self._job_storage(client, workload, image, places.job_storage),
            volume_labels=labels.of_run(workload.installation, *_run(workload), labels.TASK),
        )
        if not resources.gpus:
            return self._made(client, workload, task)
        with self._pool.granted(client, workload.key, resources.gpus, workload.installation) as ids:
            return self._made(client, workload, replace(task, gpus=ids))

    def _places(self, workload: Workload) -> Places:
        mounts = [mount.mount_path for mount in self._config.storage.additional_volume_mounts]
        return places_of(workload.environment.step, mounts, [_INIT])

    def _environment(self, workload: Workload, places: Places) -> dict[str, str]:
        loopback = loopback_for(self._config.networking.job_container_network, self._site.loopback_address)
        return environment.compose(self._config.env, workload.environment, places.variables(), loopback=loopback)

    def _have_volumes(self, client: APIClient) -> None:
        """Volumes that the profile names must be there, unless it says that they may be made."""
        from docker.errors import NotFound

        for mount in self._config.storage.additional_volume_mounts:
            if mount.kind == "volume" and not mount.allow_create_volume:
                try:
                    client.inspect_volume(mount.volume_name)
                except NotFound:
                    raise StartError(
                        f"Additional volume {mount.volume_name} not found: make it with `docker volume create`, or "
                        "set allow_create_volume where the step's profile names it."
                    ) from None

    def _job_storage(
        self, client: APIClient, workload: Workload, image: str, target: str | None
    ) -> dict[str, Any] | None:
        volume = self._config.storage.volume_name
        if target is None:
            return None
        if not volume:
            raise StartError(
                f"Step '{workload.step.name}' asks for persistent job storage; its profile has storage.volume_name ''."
            )
        return storage.mount(client, volume, workload.key, workload.installation, image, target)

    def _made(self, client: APIClient, workload: Workload, task: Task) -> Mapping[str, Any]:
        """The container, not started."""
        from docker.errors import APIError

        own = labels.of_workload(workload, _BACKEND, task.gpus, has_storage=task.job_storage is not None)
        name = names.engine_name(workload.key)
        try:
            found = made(client, name, creation_of(replace(task, labels=own), self._config))
        except APIError as error:
            if error.status_code == 404 and "no such image" in refusal(error).lower():
                raise CapacityError(f"Image {task.image} was removed from the engine; pulling it again.") from error
            raise judged(error, "create") from error
        if labels.key_of(found["Config"].get("Labels") or {}) != workload.key:
            raise StartError(f"Failed to create container: its name {name} belongs to a container that is not ours")
        return found

    def _start(self, client: APIClient, workload: Workload, container: str) -> None:
        from docker.errors import APIError, NotFound

        config = json.dumps(workload.step.config).encode()
        places = self._places(workload)
        # Images may run as any user; upstream's directory is open to all of them too.
        entries = [Entry(places.scratch, 0o777), Entry(places.config_file, 0o644, config)]
        try:
            client.put_archive(container, "/", packed(entries))
            client.start(container)
        except APIError as error:
            if isinstance(error, NotFound) and "no such container" in refusal(error).lower():
                raise BackendError("The container was removed before it was started.") from error
            self._refused(client, container, judged(error, "start"))

    def _refused(self, client: APIClient, container: str, error: BackendError) -> None:
        """Give a container up that cannot be started, at once or after some tries."""
        tries = self._refusals[container] = self._refusals.get(container, 0) + 1
        if not isinstance(error, StartError | CapacityError) and tries >= _TRIES:
            error = StartError(str(error))
        if isinstance(error, StartError):
            client.remove_container(container, force=True, v=True)
        raise error


def _run(workload: Workload) -> tuple[str, str, str]:
    key = workload.key
    return key.workspace, key.run_id, key.run_key
