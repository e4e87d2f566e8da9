"""From a step to what its pods are made of: a Secret and a ConfigMap first, then what makes the pods and owns both."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.backends.base import Site, Workload
from nemo_airflow_provider.backends.container import environment, labels
from nemo_airflow_provider.backends.container.places import CONFIG_NAME, Places, places_of
from nemo_airflow_provider.backends.kube import storage
from nemo_airflow_provider.backends.kube.access import Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kube.control import may_run
from nemo_airflow_provider.backends.kube.metadata import key_of, metadata_of
from nemo_airflow_provider.backends.kube.pod import PodTask, environment_without_gpus
from nemo_airflow_provider.backends.kube.refusals import judged
from nemo_airflow_provider.backends.kube.resources import resources_of
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import ContainerExecutor, ProcessExecutor

#: What a cluster puts into every container beside what every engine does.
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Most bytes of all values of a Secret or ConfigMap (Kubernetes documentation, "ConfigMaps").
_MOST_BYTES = 1024 * 1024
#: Most bytes of what a pod runs and sees: etcd takes 1.5 MiB at once, and a pod has more than that. What is larger the
#: API refuses, with words that say nothing of it.
_MOST_POD_BYTES = 1_500_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a workload is made of, before any of it is.

    :param task: see `PodTask`
    :param secret: body of its Secret; None: it has no secrets
    :param config_map: body of the ConfigMap with the step's configuration
    """

    task: PodTask
    secret: Thing | None
    config_map: Thing


class Launch:
    """Starts workloads of one profile.

    :param kind: of what makes the pods, a key of `cluster.PLACES`
    :param body_of: from what is prepared to the body of that
    """

    def __init__(
        self,
        config: PodConfig,
        site: Site,
        cluster: Cluster,
        backend: str,
        kind: str,
        body_of: Callable[[PodTask, Workload], dict[str, Any]],
    ) -> None:
        self._config = config
        self._site = site
        self._cluster = cluster
        self._backend = backend
        self._kind = kind
        self._body_of = body_of

    def begin(self, workload: Workload) -> Thing:
        """Have what makes the workload's pods; what is there already is adopted.

        :return: it
        :raises StartError: it cannot be made as written
        :raises CapacityError: there is no room for it now
        """
        executor = workload.step.executor
        if isinstance(executor, ProcessExecutor):
            raise StartError(f"Step '{workload.step.name}' is a process of a host; pods run images only.")
        try:
            return self._have(workload, executor)
        except Refused as error:
            raise judged(error) from error

    def _have(self, workload: Workload, executor: ContainerExecutor) -> Thing:
        name = names.engine_name(workload.key)
        owner = self._cluster.get(self._kind, name) or self._made(self.prepare(workload, executor), workload)
        if key_of(owner) != workload.key:
            raise StartError(f"Kubernetes object {name} of namespace {self._cluster.namespace} is not this job's")
        if owner["metadata"].get("deletionTimestamp"):
            raise BackendError(f"Kubernetes object {name} is still being removed")
        self._give_owner(owner)
        return owner

    def prepare(self, workload: Workload, executor: ContainerExecutor) -> Prepared:
        """Everything that is made, without asking the cluster.

        :raises StartError: it cannot be made as written
        """
        environment.check_words(executor.container)
        places = self._places(workload)
        resources = resources_of(workload.step.name, executor, self._config)
        given = workload.environment
        composed = environment.compose(
            environment_without_gpus(self._config.env, resources.gpus),
            given,
            places.variables(),
            loopback=self._site.loopback_address,
            step_over_platform=True,
        )
        # What a step calls its variables may be no name of a key.
        hidden = [name for name in composed if name in given.secrets and name not in places.variables()]
        keys = {name: f"secret-{number}" for number, name in enumerate(hidden)}
        directory = self._storage_directory(workload, places)
        own = labels.of_workload(workload, self._backend, has_storage=directory is not None)
        task = PodTask(
            name=names.engine_name(workload.key),
            own=own,
            executor=executor,
            image=executor.container.image or self._config.default_task_image or self._site.default_task_image,
            environment=composed,
            secrets=keys,
            places=places,
            resources=resources,
            storage_directory=directory,
            pull_secrets=self._site.image_pull_secrets,
        )
        _check_pod_size(task)
        values = {key: composed[name] for name, key in keys.items()}
        return Prepared(task, self._secret(task, values) if values else None, self._config_map(task, workload))

    def _places(self, workload: Workload) -> Places:
        mounts = [mount.mount_path for mount in self._config.storage.additional_volume_mounts]
        return places_of(workload.environment.step, mounts, [_TOKEN])

    def _storage_directory(self, workload: Workload, places: Places) -> str | None:
        if places.job_storage is None:
            return None
        if not self._config.storage.pvc_name:
            raise StartError(
                "Job step requests persistent job storage path, but storage configuration is missing pvc_name "
                "configuration."
            )
        key = workload.key
        return storage.directory_of(key.workspace, key.run_id, key.run_key)

    @staticmethod
    def _secret(task: PodTask, values: Mapping[str, str]) -> dict[str, Any]:
        _check_size("secrets", values.values(), _MOST_BYTES)
        head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata_of(task.name, task.own)}
        return {**head, "immutable": True, "type": "Opaque", "stringData": dict(values)}

    @staticmethod
    def _config_map(task: PodTask, workload: Workload) -> dict[str, Any]:
        data = {CONFIG_NAME: json.dumps(workload.step.config)}
        _check_size("config", data.values(), _MOST_BYTES)
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata_of(task.name, task.own)}
        return {**head, "immutable": True, "data": data}

    def _made(self, prepared: Prepared, workload: Workload) -> Thing:
        task = prepared.task
        pods = self._cluster.list("pods", labels.of_task(workload.key))
        if left := next((pod for pod in pods if key_of(pod) == workload.key and may_run(pod)), None):
            if faster := self._cluster.get(self._kind, task.name):
                return faster
            raise BackendError(f"Pod {left['metadata']['name']}, whose owner was removed, has not ended yet")
        if task.storage_directory is not None:
            storage.have(self._cluster, self._config.storage.pvc_name, workload, task.storage_directory)
        if prepared.secret is not None:
            self._put("secrets", prepared.secret, workload)
        self._put("configmaps", prepared.config_map, workload)
        made = self._cluster.create(self._kind, self._body_of(task, workload))
        # None: whoever was faster has made it.
        found = made or self._cluster.get(self._kind, task.name)
        if found is None:
            raise BackendError(f"Kubernetes object {task.name} was removed while it was made")
        return found

    def _put(self, kind: str, body: Thing, workload: Workload) -> None:
        """Have an object as it is now to be, whatever a try that was cut off has left of it.

        :raises StartError: its name is somebody else's
        """
        if self._cluster.create(kind, body) is not None:
            return
        name = body["metadata"]["name"]
        found = self._cluster.get(kind, name)
        if found is not None and key_of(found) != workload.key:
            raise StartError(f"Kubernetes object {name} of namespace {self._cluster.namespace} is not this job's")
        if found is not None and not _holds(found, body):
            self._cluster.delete(kind, name, uid=found["metadata"]["uid"])
        if found is None or not _holds(found, body):
            self._cluster.create(kind, body)

    def _give_owner(self, owner: Thing) -> None:
        """Have Secret and ConfigMap removed together with their owner."""
        metadata = owner["metadata"]
        own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
        patch = {"metadata": {"ownerReferences": [{**own, "uid": metadata["uid"]}]}}
        for kind in ("secrets", "configmaps"):
            if kind == "configmaps" or self._has_secret(owner):
                self._cluster.patch(kind, metadata["name"], patch)

    @staticmethod
    def _has_secret(owner: Thing) -> bool:
        return '"secretKeyRef"' in json.dumps(owner["spec"])


def _holds(thing: Thing, body: Thing) -> bool:
    """Whether a Secret or ConfigMap has what it is to have."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in (body.get("stringData") or {}).items()}
    return bool((thing.get("data") or {}) == (encoded or body.get("data")))


def _check_pod_size(task: PodTask) -> None:
    given = task.executor.container
    shown = [text for item in task.environment.items() if item[0] not in task.secrets for text in item]
    texts = [*given.entrypoint, *given.command, *shown]
    # Each dollar is written twice, see `pod`.
    _check_size("words and variables", [text.replace("$", "$$") for text in texts], _MOST_POD_BYTES)


def _check_size(what: str, texts: Iterable[str], most: int) -> None:
    size = sum(len(text.encode(errors="replace")) for text in texts)
    if size > most:
        raise StartError(f"The step's {what} are {size} bytes; a Kubernetes object holds at most {most}.")
