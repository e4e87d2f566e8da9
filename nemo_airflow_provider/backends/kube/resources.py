"""CPU, memory, shared memory and GPUs of a pod: a step's own, field by field, over its profile's; pure.

The cluster takes quantities as they are written; they are looked at here, so that a wrong one is named by who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model.quantities import number_of
from nemo_airflow_provider.model.spec import ContainerExecutor, CpuExecutor

GPU = "nvidia.com/gpu"
_SHM_PER_GPU = 8
_FIELDS: tuple[Literal["cpu", "memory"], ...] = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod gets.

    :param requests: what the scheduler sets aside, by resource
    :param limits: what the pod may not exceed
    :param shm_size: of `/dev/shm`; None: the container engine's default
    :param gpus: how many
    """

    requests: dict[str, str]
    limits: dict[str, str]
    shm_size: str | None = None
    gpus: int = 0

    def body(self) -> dict[str, Any]:
        """The container's `resources`."""
        limits = {**self.limits, **({GPU: str(self.gpus)} if self.gpus else {})}
        parts = {"requests": self.requests, "limits": limits}
        return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A quantity and who wrote it."""

    field: str
    quantity: str
    whose: str

    def number(self) -> Decimal:
        try:
            return number_of(self.quantity)
        except ValueError as error:
            raise StartError(f"{self.field} of {self.whose}: {error}.") from error


def resources_of(step: str, executor: ContainerExecutor, config: PodConfig) -> PodResources:
    """What each pod of a step gets.

    :raises StartError: a quantity that is none, a request above its limit, or a number of GPUs below 0
    """
    own, default = executor.resources, config.resources

    def asked(field: str, read: Callable[[Any], str | None]) -> _Asked | None:
        for resources, whose in ((own, f"step '{step}'"), (default, "the step's profile")):
            if (quantity := read(resources)) is not None:
                return _Asked(field, quantity, whose)
        return None

    found: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for name in _FIELDS:
        request = asked(f"requests.{name}", lambda each: getattr(each.requests, name))  # noqa: B023 - called at once
        limit = asked(f"limits.{name}", lambda each: getattr(each.limits, name))  # noqa: B023
        _check(request, limit)
        for part, quantity in (("requests", request), ("limits", limit)):
            if quantity is not None:
                found[part][name] = quantity.quantity.strip()
    gpus = 0 if isinstance(executor, CpuExecutor) else _gpus(executor, config)
    shm = asked("shm_size", lambda each: each.shm_size)
    return PodResources(
        **found,
        shm_size=shm.quantity if shm else (f"{_SHM_PER_GPU * gpus}Gi" if gpus else None),
        gpus=gpus,
    )


def _check(request: _Asked | None, limit: _Asked | None) -> None:
    numbers = [None if each is None else each.number() for each in (request, limit)]
    if request is None or limit is None or numbers[0] is None or numbers[1] is None:
        return
    if numbers[0] > numbers[1]:
        raise StartError(
            f"{request.field} of {request.whose} is {request.quantity}, more than {limit.field} of {limit.whose}, "
            f"{limit.quantity}."
        )


def _gpus(executor: ContainerExecutor, config: PodConfig) -> int:
    """Step over profile; of a profile, `resources.num_gpus` over `num_gpus` (choices: step resources)."""
    asked = (executor.resources.num_gpus, config.resources.num_gpus, config.num_gpus)
    number = next(number for number in asked if number is not None)
    if number < 0:
        raise StartError(f"Invalid GPU request: {number}. Must be a positive integer.")
    return number
