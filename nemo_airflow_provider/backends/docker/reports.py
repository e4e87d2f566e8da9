"""What there is to say of an engine: whether it can be used, what it lacks, and who has its host's GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.base import Site
from nemo_airflow_provider.backends.docker import nvml
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.docker.engine import DockerEngine
from nemo_airflow_provider.backends.docker.gpus import Lease, leases
from nemo_airflow_provider.backends.docker.nvml import Device
from nemo_airflow_provider.backends.docker.storage import SUBPATH_VERSION, is_plain
from nemo_airflow_provider.backends.docker.tickets import Line, Waiter
from nemo_airflow_provider.backends.powers import (
    EngineRemark,
    EngineReport,
    GpuBoard,
    GpuDevice,
    GpuUser,
    GpuWaiter,
    SupportsGpus,
    SupportsProbe,
)

if TYPE_CHECKING:
    from docker import APIClient

_NO_GPUS = (
    "NVIDIA's driver is not there, or sees no GPU that jobs may use",
    "Nothing, where no job is to have one; else install the driver, or name the GPUs in "
    "platform.docker.reserved_gpu_device_ids where Airflow runs in a container that does not see them.",
)


class DockerReports(SupportsProbe, SupportsGpus):
    """The powers to be probed and to tell of GPUs.

    :param config: of the profile
    """

    _config: DockerConfig
    _engine: DockerEngine
    _site: Site

    def probe(self) -> None:
        """See `SupportsProbe.probe`."""
        with self._engine.asked() as client:
            client.ping()

    def examined(self) -> tuple[object, ...]:
        """See `SupportsProbe.examined`."""
        return (self._config.storage,)

    def examine(self, *, for_gpus: bool) -> EngineReport:
        """See `SupportsProbe.examine`."""
        with self._engine.asked() as client:
            version, info = client.version(), client.info()
            volume = _volume(client, self._config.storage.volume_name)
        engine = f"Docker {version['Version']} (API {version['ApiVersion']}) at {self._engine.access.shown_url}"
        remarks = list(storage_remarks(version["ApiVersion"], volume))
        if for_gpus:
            remarks += gpu_remarks(info.get("Runtimes") or {}, has_gpus=self.has_gpus())
        return EngineReport(engine, tuple(remarks))

    def has_gpus(self) -> bool:
        """See `SupportsGpus.has_gpus`."""
        return bool(self._devices())

    def gpus(self) -> GpuBoard:
        """See `SupportsGpus.gpus`."""
        with self._engine.asked() as client:
            held = leases(client)
        return board(self._devices(), held, self._line().waiters())

    def _devices(self) -> tuple[Device, ...]:
        return nvml.pool(self._site.gpu_device_ids, nvml.devices())

    def _line(self) -> Line:
        return Line(self._engine.identity(), self._site.lock_directory)


def board(devices: Iterable[Device], held: Sequence[Lease], waiting: Iterable[Waiter]) -> GpuBoard:
    """The GPUs of the pool, then those that containers have beyond it, each in the order of ids.

    Of two containers that have one GPU the one that keeps it counts, see `gpus.claim`.
    """
    holders: dict[int, Lease] = {}
    for lease in sorted(held, key=lambda lease: lease.rank):
        for gpu in lease.gpus:
            holders.setdefault(gpu, lease)
    pool = {device.id: device for device in devices}
    beyond = [Device(gpu) for gpu in sorted(holders) if gpu not in pool]
    shown = tuple(_shown(device, holders.get(device.id)) for device in (*pool.values(), *beyond))
    return GpuBoard(shown, tuple(_waiter(each) for each in waiting))


def _shown(device: Device, lease: Lease | None) -> GpuDevice:
    return GpuDevice(
        id=str(device.id),
        name=device.name,
        uuid=device.uuid,
        taken=lease is not None,
        holder=_holder(lease) if lease else None,
    )


def _holder(lease: Lease) -> GpuUser | None:
    key = lease.workload
    if key is None:
        return None
    return GpuUser(lease.installation, key.workspace, key.job, key.step, key.task, float(lease.created))


def _waiter(waiter: Waiter) -> GpuWaiter:
    user = GpuUser(waiter.installation, waiter.workspace, waiter.job, waiter.step, waiter.task, waiter.since)
    return GpuWaiter(user, waiter.gpus)


def _volume(client: APIClient, name: str) -> Mapping[str, Any] | None:
    """The volume of job storage; None where there is none yet: it is made with the first job that wants storage."""
    from docker.errors import NotFound

    if not name:
        return None
    try:
        found: Mapping[str, Any] = client.inspect_volume(name)
    except NotFound:
        return None
    return found


def storage_remarks(api_version: str, volume: Mapping[str, Any] | None) -> Iterator[EngineRemark]:
    """What a job's persistent storage meets in this engine.

    :param api_version: of the engine's API
    :param volume: the engine's description of the profile's volume; None: it is made when it is needed
    """
    if volume is None or is_plain(volume) or tuple(map(int, api_version.split("."))) >= SUBPATH_VERSION:
        return
    needed = ".".join(map(str, SUBPATH_VERSION))
    yield EngineRemark(
        f"Its API {api_version} cannot mount a part of volume '{volume['Name']}', which is no plain directory of its "
        "host: steps with persistent job storage fail",
        f"Update it to Docker 26 (API {needed}) or newer, or name another volume in storage.volume_name.",
        fails_steps=True,
    )


def gpu_remarks(runtimes: Mapping[str, Any], *, has_gpus: bool) -> Iterator[EngineRemark]:
    """What steps with GPUs lack.

    :param runtimes: those that the engine knows, by name
    :param has_gpus: whether there is a GPU that jobs may use
    """
    if not has_gpus:
        # Most hosts without GPUs are meant to have none.
        yield EngineRemark(f"{_NO_GPUS[0]}: jobs with such steps are refused", _NO_GPUS[1], fails_steps=False)
    elif "nvidia" not in runtimes:
        yield EngineRemark(
            "It does not know the runtime 'nvidia', by which containers get GPUs in most installations",
            "Install NVIDIA's container toolkit and restart the engine, unless steps with GPUs do start.",
            fails_steps=False,
        )
