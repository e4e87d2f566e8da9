"""What is kept under a working directory, for the sweep."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from nemo_airflow_provider.backends.subprocess import job, launch
from nemo_airflow_provider.backends.subprocess.layout import Place, component, run_directory
from nemo_airflow_provider.backends.subprocess.workdir import present
from nemo_airflow_provider.model.names import WorkloadKey


class SubprocessHoldings(SupportsSweep):
    """The power to be swept.

    :param root: the profile's `working_directory`
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def scope(self) -> str:
        """See `SupportsSweep.scope`."""
        return f"{socket.gethostname()}:{self._root}"

    def speaks_for(self, engine: str) -> bool:
        """See `SupportsSweep.speaks_for`: an engine is a host and one boot of it."""
        return engine.rpartition(":")[0] == socket.gethostname()

    def held_jobs(self, installation: str) -> Iterator[HeldJob]:
        """See `SupportsSweep.held_jobs`."""
        with launch.translated(Place(self._root, "", "", "", "")):
            for place in job.of_installation(self._root, installation):
                run_id, _, run_key = place.run.rpartition(".")
                yield HeldJob(place.workspace, run_id, run_key, tuple(_keys(place, run_id, run_key)))

    def remove_job(self, workspace: str, run_id: str, run_key: str) -> bool:
        """See `SupportsSweep.remove_job`: the work directories of all its steps, and its job storage."""
        place = Place(self._root, component(workspace), run_directory(run_id, run_key), "", "")
        with launch.translated(place):
            return job.remove_job(place)


def _keys(place: Place, run_id: str, run_key: str) -> Iterator[WorkloadKey]:
    """Workloads of a job that name themselves as their directories do; a workload can write there too."""
    for candidate in job.workloads(place):
        with present(candidate) as work:
            key = work.key() if work else None
        if key is None or key.task != candidate.task:
            continue
        if (key.workspace, key.run_id, key.run_key) == (place.workspace, run_id, run_key):
            yield key
