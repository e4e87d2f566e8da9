"""CPU, memory, shared memory and GPUs of a container: a step's own, field by field, over its profile's; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model.quantities import nano_cpus, whole_bytes
from nemo_airflow_provider.model.spec import ContainerExecutor, CpuExecutor

_NANO = 1_000_000_000
#: The kernel's own default.
_PERIOD_MICROS = 100_000
_SHM_BYTES_PER_GPU = 8 * 1024**3
#: The kernel's least quota is 1 ms of each 100 ms. The engine itself takes 0 for "no limit".
_LEAST_NANO_CPUS = 10**7
#: A million CPUs: the kernel's quota has 44 bits.
_MOST_NANO_CPUS = 10**15
#: The engine's numbers have 64 bits.
_MOST_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container gets.

    :param nano_cpus: billionths of CPUs it may use at most; None: no limit
    :param memory_bytes: memory it may use at most; None: no limit
    :param shm_bytes: size of `/dev/shm`; None: the engine's default
    :param gpus: how many
    """

    nano_cpus: int | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    gpus: int = 0

    def host_config(self) -> dict[str, Any]:
        """The part of the engine's `HostConfig`.

        Without swap beyond the memory, so that the limit is one (Kubernetes' meaning).
        """
        found: dict[str, Any] = {}
        if self.nano_cpus is not None:
            # Not the engine's `NanoCpus`, which it refuses when it is more than the host's own CPUs.
            found |= {"CpuPeriod": _PERIOD_MICROS, "CpuQuota": self.nano_cpus * _PERIOD_MICROS // _NANO}
        if self.memory_bytes is not None:
            found |= {"Memory": self.memory_bytes, "MemorySwap": self.memory_bytes}
        if self.shm_bytes is not None:
            found["ShmSize"] = self.shm_bytes
        return found


def resources_of(step: str, executor: ContainerExecutor, config: DockerConfig) -> Resources:
    """What a step's container gets.

    :raises StartError: a quantity that cannot be given, or a number of GPUs that is not positive
    """
    own, default = executor.resources, config.resources
    gpus = 0 if isinstance(executor, CpuExecutor) else _gpus(executor, config)

    def asked(field: str, own: str | None, default: str | None, number_of: Callable[[str], int]) -> int | None:
        quantity = own if own is not None else default
        try:
            return None if quantity is None else number_of(quantity)
        except ValueError as error:
            whose = "the step's profile" if own is None else f"step '{step}'"
            raise StartError(f"{field} of {whose}: {error}.") from error

    return Resources(
        nano_cpus=asked("limits.cpu", own.limits.cpu, default.limits.cpu, _cpus),
        memory_bytes=asked("limits.memory", own.limits.memory, default.limits.memory, _bytes),
        shm_bytes=asked("shm_size", own.shm_size, default.shm_size, _bytes) or gpus * _SHM_BYTES_PER_GPU or None,
        gpus=gpus,
    )


def _cpus(quantity: str) -> int:
    number = nano_cpus(quantity)
    if number < _LEAST_NANO_CPUS:
        raise ValueError(f"{quantity!r} is less than 10m (a hundredth of a CPU), the least that can be a limit")
    return _countable(number, _MOST_NANO_CPUS, quantity)


def _bytes(quantity: str) -> int:
    number = whole_bytes(quantity)
    if number == 0:
        raise ValueError(f"{quantity!r} is no size of memory; it must be more than 0")
    return _countable(number, _MOST_BYTES, quantity)


def _countable(number: int, most: int, quantity: str) -> int:
    if number > most:
        raise ValueError(f"{quantity!r} is more than any host has")
    return number


def _gpus(executor: ContainerExecutor, config: DockerConfig) -> int:
    """Step over profile; of a profile, `resources.num_gpus` over `num_gpus` (choices: step resources)."""
    asked = (executor.resources.num_gpus, config.resources.num_gpus, config.num_gpus)
    number = next(number for number in asked if number is not None)
    if number <= 0:
        raise StartError(f"Invalid GPU request: {number}. Must be a positive integer.")
    return number
