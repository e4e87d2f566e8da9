"""CPU, memory, shared memory and GPUs of a container: a step's own, field by field, over its profile's; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model.quantities import nano_cpus, whole_bytes
from nemo_airflow_provider.model.spec import ContainerExecutor, CpuExecutor

_SHM_BYTES_PER_GPU = 8 * 1024**3


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
            found["NanoCpus"] = self.nano_cpus
        if self.memory_bytes is not None:
            found |= {"Memory": self.memory_bytes, "MemorySwap": self.memory_bytes}
        if self.shm_bytes is not None:
            found["ShmSize"] = self.shm_bytes
        return found


def resources_of(step: str, executor: ContainerExecutor, config: DockerConfig) -> Resources:
    """What a step's container gets.

    :raises StartError: a quantity that is none, or a number of GPUs that is not positive
    """
    own, default = executor.resources, config.resources
    cpu = own.limits.cpu if own.limits.cpu is not None else default.limits.cpu
    memory = own.limits.memory if own.limits.memory is not None else default.limits.memory
    shm = own.shm_size if own.shm_size is not None else default.shm_size
    gpus = 0 if isinstance(executor, CpuExecutor) else _gpus(executor, config)
    try:
        shm_bytes = whole_bytes(shm) if shm is not None else gpus * _SHM_BYTES_PER_GPU or None
        return Resources(
            nano_cpus=None if cpu is None else nano_cpus(cpu),
            memory_bytes=None if memory is None else whole_bytes(memory),
            shm_bytes=shm_bytes,
            gpus=gpus,
        )
    except ValueError as error:
        raise StartError(f"Step '{step}' asks for resources that cannot be understood: {error}") from error


def _gpus(executor: ContainerExecutor, config: DockerConfig) -> int:
    """Step over profile; of a profile, `resources.num_gpus` over `num_gpus` (choices: step resources)."""
    asked = (executor.resources.num_gpus, config.resources.num_gpus, config.num_gpus)
    number = next(number for number in asked if number is not None)
    if number <= 0:
        raise StartError(f"Invalid GPU request: {number}. Must be a positive integer.")
    return number
