"""What an engine keeps of an installation, for the sweep."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_airflow_provider.backends.docker import labels, pull, storage
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.docker.engine import DockerEngine
from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from nemo_airflow_provider.model.names import WorkloadKey

_ALIVE = ("running", "paused", "restarting")
#: For the image that removes job storage; what was pulled by then is kept for the next sweep.
_PULL_SECONDS = 60.0


class DockerHoldings(SupportsSweep):
    """The power to be swept.

    :param config: of the profile
    """

    def __init__(self, config: DockerConfig, engine: DockerEngine) -> None:
        self._config = config
        self._engine = engine

    def scope(self) -> str:
        """See `OverEngine.scope`: the engine of this host, or of a connection."""
        connection = self._config.docker_conn_id
        return f"docker connection {connection}" if connection else f"docker on {socket.gethostname()}"

    def speaks_for(self, engine: str) -> bool:
        """See `SupportsSweep.speaks_for`: an engine keeps its id for ever, whatever its host is called."""
        return engine.rpartition("/")[2] == self._engine.identity().rpartition("/")[2]

    def held_jobs(self, installation: str) -> Iterator[HeldJob]:
        """See `SupportsSweep.held_jobs`."""
        with self._engine.asked() as client:
            filters = {"label": labels.installation_filter(installation)}
            containers = client.containers(all=True, filters=filters)
            volumes = client.volumes(filters=filters)["Volumes"] or []
        jobs: dict[tuple[str, str, str], list[WorkloadKey]] = {}
        for each in (*containers, *volumes):
            own = each.get("Labels") or {}
            if (run := labels.run_of(own)) is not None:
                found = jobs.setdefault(run, [])
                if (key := labels.key_of(own)) is not None and "Id" in each:
                    found.append(key)
        for run, keys in jobs.items():
            yield HeldJob(*run, workloads=tuple(keys))

    def remove_job(self, workspace: str, run_id: str, run_key: str) -> bool:
        """See `SupportsSweep.remove_job`."""
        run = (workspace, run_id, run_key)
        with self._engine.asked() as client:
            filters = {"label": labels.run_filter(run_key)}
            containers = [each for each in client.containers(all=True, filters=filters) if _is_of(each, run)]
            if any(each["State"] in _ALIVE for each in containers if _kind(each) == labels.TASK):
                return False
            for each in containers:
                if _kind(each) != labels.STORAGE:
                    client.remove_container(each["Id"], force=True, v=True)
            for each in containers:
                if _kind(each) == labels.STORAGE:
                    storage.remove(client, each, run, self._config.storage.volume_permissions_image, self._fetch)
            self._remove_volumes(client.volumes(filters=filters)["Volumes"] or [], run)
        return True

    def _fetch(self, image: str) -> None:
        pull.fetch(self._engine.access, image, _PULL_SECONDS)

    def _remove_volumes(self, volumes: Sequence[Mapping[str, Any]], run: tuple[str, str, str]) -> None:
        """Those of containers that somebody removed by hand."""
        for each in volumes:
            if _is_of(each, run):
                with self._engine.asked() as client:
                    client.remove_volume(each["Name"])


def _is_of(thing: Mapping[str, Any], run: tuple[str, str, str]) -> bool:
    return labels.run_of(thing.get("Labels") or {}) == run


def _kind(container: Mapping[str, Any]) -> str | None:
    kind: str | None = (container.get("Labels") or {}).get(labels.TYPE)
    return kind
