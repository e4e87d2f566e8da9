"""The GPUs of an engine's host: which containers have them, who waits for them, and how they are given out.

The labels of the engine's containers are the only record: a GPU is taken as long as a container with its id is there
and may run. Whoever gives GPUs out holds the host's lock from the look at the labels until the container is made.
Waiters are served in the order they came, whatever they ask for: a step that wants two GPUs would starve otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.nvml import Device
from nemo_airflow_provider.backends.docker.tickets import Line, Ticket, Waiter
from nemo_airflow_provider.errors import CapacityError, StartError
from nemo_airflow_provider.model.names import WorkloadKey

if TYPE_CHECKING:
    from docker import APIClient

#: States of a container that has its GPUs, or may yet take them.
_HOLDING = ("created", "restarting", "running", "paused")


@dataclass(frozen=True, slots=True)
class Lease:
    """A container that has GPUs.

    :param container: its id
    :param created: when it was made, seconds since 1970 UTC
    :param workload: None for a container that somebody else made with our labels
    :param installation: whose it is
    """

    container: str
    created: int
    gpus: tuple[int, ...]
    workload: WorkloadKey | None
    installation: str = ""
    is_started: bool = True

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Of two that have one GPU the lower keeps it: one that is started, then the earlier."""
        return (not self.is_started, self.created, self.container)


def leases(client: APIClient) -> list[Lease]:
    """Every container of the engine that has GPUs of the pool, of whichever installation."""
    found = client.containers(all=True, filters={"label": [labels.GPUS], "status": list(_HOLDING)})
    return [_lease(container) for container in found]


def _lease(container: Mapping[str, Any]) -> Lease:
    own = container.get("Labels") or {}
    return Lease(
        container["Id"],
        int(container["Created"]),
        labels.gpus_of(own),
        labels.key_of(own),
        labels.installation_of(own),
        is_started=container["State"] != "created",
    )


class GpuPool:
    """What one process gives out, and waits for.

    :param devices: see `nvml.pool`; asked at each request, since a driver may come up late
    """

    def __init__(self, line: Line, devices: Callable[[], Sequence[Device]]) -> None:
        self._line = line
        self._devices = devices
        self._tickets: dict[WorkloadKey, Ticket] = {}

    @contextmanager
    def granted(
        self, client: APIClient, key: WorkloadKey, number: int, installation: str = ""
    ) -> Iterator[tuple[int, ...]]:
        """Ids of free GPUs, which nobody else is given before the block ends: it makes the container that has them.

        :param installation: whose workload it is
        :raises StartError: there will never be so many
        :raises CapacityError: they are not free, or others came first; the step has a place in the line from now on
        """
        ids = [device.id for device in self._devices()]
        if not ids:
            raise StartError("No GPUs available on this system. GPU jobs require a system with NVIDIA GPUs.")
        with self._line.locked():
            taken = {gpu for lease in leases(client) for gpu in lease.gpus}
            free = [gpu for gpu in ids if gpu not in taken]
            scarce = f"Not enough GPUs available. Requested {number}, available {len(free)} out of {len(ids)} total."
            if number > len(ids):
                raise StartError(scarce)
            before = self._line.before(self._tickets.get(key))
            if before or number > len(free):
                if key not in self._tickets:
                    waiter = Waiter(key.workspace, key.job, key.step, key.task, number, time.time(), installation)
                    self._tickets[key] = self._line.join(waiter)
                ahead = f" {before} request{'s' * (before > 1)} came before it." if before else ""
                raise CapacityError(scarce + ahead)
            yield tuple(free[:number])
        self.leave(key)

    def leave(self, key: WorkloadKey) -> None:
        """The step waits no longer."""
        if (ticket := self._tickets.pop(key, None)) is not None:
            ticket.drop()


def claim(client: APIClient, container: Mapping[str, Any]) -> None:
    """Return when nobody else has the GPUs of a container, which may then be started.

    Workers of two hosts share an engine, not a lock. Each looks when its own container is there: of two that share a
    GPU at least one sees the other, however late it appears or whatever time it bears, and is not started.

    :param container: the engine's description of it
    :raises CapacityError: another has one of them; the container is removed, unless the other is to be
    """
    if not labels.gpus_of(container["Config"].get("Labels") or {}):
        return
    all_leases = leases(client)
    own = next((lease for lease in all_leases if lease.container == container["Id"]), None)
    if own is None:
        return
    rivals = [lease for lease in all_leases if lease is not own and set(lease.gpus) & set(own.gpus)]
    if any(rival.rank < own.rank for rival in rivals):
        client.remove_container(own.container, force=True, v=True)
        raise CapacityError("Another worker of this engine was given the same GPUs first; asking again.")
    if rivals:
        raise CapacityError("Another worker of this engine was given the same GPUs, and has yet to give them up.")
