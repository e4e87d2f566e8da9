"""Who has the GPUs of the engines, and who waits for them, as far as a caller may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from typing import Literal

from pydantic import BaseModel, Field

from nemo_airflow_provider.backends.powers import GpuBoard, GpuDevice, GpuUser, GpuWaiter, SupportsGpus
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.profiles import Profile, ProfileSet
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.engines import Engines
from nemo_airflow_provider.service.gateway import Gateway

ASKED_ELSEWHERE = (
    "This API server asks no engines ([nemo] probe_engines): who has GPUs is asked where steps run, and a step that "
    "waits for one says so in its status."
)
#: Engines that are asked at once.
_AT_ONCE = 8


class GpuStep(BaseModel):
    """A step that has GPUs."""

    workspace: str
    job: str
    step: str
    task: str
    since: str = Field(description="Since when; UTC.")


class Gpu(BaseModel):
    """One GPU."""

    id: str = Field(description="What the configuration calls it.")
    name: str | None = None
    uuid: str | None = None
    state: Literal["free", "taken"]
    holder: GpuStep | None = Field(default=None, description="Who has it; null where you may not know.")


class WaitingStep(BaseModel):
    """A step that waits for GPUs; without names where you may not know them."""

    position: int = Field(description="In the line, from 1: GPUs are given out in this order.")
    gpus: int = Field(description="How many it waits for.")
    since: str = Field(description="Since when; UTC.")
    workspace: str | None = None
    job: str | None = None
    step: str | None = None
    task: str | None = None


class GpuEngine(BaseModel):
    """An engine that gives steps GPUs."""

    profiles: list[str] = Field(description="`provider/profile` of the profiles whose steps get its GPUs.")
    backend: str
    error: str | None = Field(default=None, description="Why it could not be asked, and what to do.")
    devices: list[Gpu] = Field(default_factory=list)
    waiters: list[WaitingStep] = Field(default_factory=list)


class GpuListing(BaseModel):
    """The GPUs of this installation's engines."""

    engines: list[GpuEngine] = Field(default_factory=list)
    note: str | None = Field(default=None, description="Why no engine was asked.")


class Gpus:
    """The GPUs, for one caller.

    :param engines: None where this process asks none
    :param installation: id of this installation; of another one on the same host nobody may know jobs
    """

    def __init__(self, gateway: Gateway, access: Access, engines: Engines | None, installation: str | None) -> None:
        self._gateway = gateway
        self._engines = engines
        self._access = access
        self._installation = installation

    def listing(self, profiles: ProfileSet) -> GpuListing:
        """Every engine with its GPUs; one that does not answer has an error instead.

        :param profiles: as configured, whatever engines answer
        """
        engines = self._engines
        if engines is None:
            return GpuListing(note=ASKED_ELSEWHERE)
        groups = _by_engine(engines, profiles)

        def ask(group: Sequence[Profile]) -> GpuBoard | str:
            try:
                return engines.gpus(group[0], profiles.platform)
            except BackendError as error:
                return str(error)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            boards = list(pool.map(ask, groups))
        shown = cache(self._shown)  # a job of many GPUs is looked for once
        return GpuListing(engines=[_engine(group, board, shown) for group, board in zip(groups, boards, strict=True)])

    def _shown(self, installation: str, workspace: str, job: str) -> bool:
        """Whether the caller may read a job that an engine names."""
        if installation != self._installation or not self._access.readable(workspace):
            return False
        dags = {row.dag_id for row in self._gateway.runs_named(workspace, job) if not row.deleted}
        return bool(dags) and self._access.visible(dags) == dags


def _by_engine(engines: Engines, profiles: ProfileSet) -> list[list[Profile]]:
    """The profiles whose steps get GPUs of an engine, one list for each engine."""
    groups: dict[str, list[Profile]] = {}
    for profile in profiles.profiles:
        backend = BACKENDS[profile.backend]
        if profile.gives_gpus and backend.provided and backend.has(SupportsGpus):
            groups.setdefault(engines.scope(profile, profiles.platform), []).append(profile)
    return list(groups.values())


def _engine(group: Sequence[Profile], board: GpuBoard | str, shown: Callable[[str, str, str], bool]) -> GpuEngine:
    engine = GpuEngine(profiles=[str(profile) for profile in group], backend=group[0].backend)
    if isinstance(board, str):
        return engine.model_copy(update={"error": board})
    return engine.model_copy(
        update={
            "devices": [_gpu(device, shown) for device in board.devices],
            "waiters": [_waiting(position, waiter, shown) for position, waiter in enumerate(board.waiters, 1)],
        }
    )


def _gpu(device: GpuDevice, shown: Callable[[str, str, str], bool]) -> Gpu:
    user = device.holder
    return Gpu(
        id=device.id,
        name=device.name,
        uuid=device.uuid,
        state="taken" if device.taken else "free",
        holder=GpuStep(**_names(user), since=_moment(user.since)) if user and _may_know(user, shown) else None,
    )


def _waiting(position: int, waiter: GpuWaiter, shown: Callable[[str, str, str], bool]) -> WaitingStep:
    names = _names(waiter.user) if _may_know(waiter.user, shown) else {}
    return WaitingStep(position=position, gpus=waiter.gpus, since=_moment(waiter.user.since), **names)


def _may_know(user: GpuUser, shown: Callable[[str, str, str], bool]) -> bool:
    return shown(user.installation, user.workspace, user.job)


def _names(user: GpuUser) -> dict[str, str]:
    return {"workspace": user.workspace, "job": user.job, "step": user.step, "task": user.task}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
