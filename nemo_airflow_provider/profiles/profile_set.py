"""The profiles of an installation, and what they say about a job before it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nemo_airflow_provider.backends.config import BackendConfig, ProfileKey
from nemo_airflow_provider.backends.powers import SupportsMultiNode
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model.spec import (
    ComputeResources,
    CpuExecutor,
    PlatformSpec,
    ProcessExecutor,
    StepSpec,
)
from nemo_airflow_provider.profiles.platform import PlatformConfig

#: A step that sets this variable wants storage that outlives it.
_PERSISTENT_STORAGE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"
_GPU_PROVIDERS = frozenset({"gpu", "gpu_distributed"})


@dataclass(frozen=True)
class Profile:
    """How steps of one (provider, name) are run."""

    provider: str
    name: str
    backend: str
    config: BackendConfig

    @property
    def key(self) -> ProfileKey:
        """(provider, name)."""
        return self.provider, self.name

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"

    @property
    def gives_gpus(self) -> bool:
        """Whether its steps may have GPUs."""
        return self.provider in _GPU_PROVIDERS

    def public(self) -> dict[str, Any]:
        """Item of `GET /execution-profiles`."""
        return {
            "provider": self.provider,
            "profile": self.name,
            "backend": self.backend,
            "config": self.config.public(),
        }


class Probe(Protocol):
    """Asks the engines of the host, where steps run there."""

    def answers(self, profile: Profile, platform: PlatformConfig) -> bool:
        """Whether the profile's engine answers now."""

    def lacks_gpus(self, profile: Profile, platform: PlatformConfig) -> bool:
        """Whether it is known that jobs can have no GPU there."""


@dataclass(frozen=True)
class ProfileSet:
    """The merged profiles.

    :param runtime: `platform.runtime`, or `none` where the host's engine was asked and did not answer
    :param profiles: in the order of the listing: built-ins, then the file's own
    :param platform: the rest of `platform:`
    :param warnings: what a person should know and nothing refuses
    :param without_effect: places of keys and variables that are accepted and change nothing
    :param hints: places where the file probably says something else than was meant
    :param left_out: configured profiles that cannot run now, and why
    :param on_host: names of profiles that move `cpu` container steps to the host (§9)
    :param probe: see `load_profiles`
    """

    runtime: str
    profiles: tuple[Profile, ...]
    platform: PlatformConfig
    warnings: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    left_out: Mapping[ProfileKey, str] = field(default_factory=dict)
    on_host: frozenset[str] = frozenset()
    probe: Probe | None = None

    def resolve(self, provider: str, name: str) -> Profile | None:
        """The profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.key == (provider, name)), None)

    def translate(self, spec: PlatformSpec) -> tuple[PlatformSpec, list[str]]:
        """The spec with `cpu` container steps made processes where the file asks for it, and warnings (§9).

        :raises InvalidJob: such a step has neither entrypoint nor command
        """
        warnings: list[str] = []
        steps = [self._translated(step, warnings) for step in spec.steps]
        return spec.model_copy(update={"steps": steps}), warnings

    def _translated(self, step: StepSpec, warnings: list[str]) -> StepSpec:
        executor = step.executor
        if not isinstance(executor, CpuExecutor) or executor.profile not in self.on_host:
            return step
        command = [*executor.container.entrypoint, *executor.container.command]
        if not command:
            raise InvalidJob(
                f"Subprocess execution for step '{step.name}' requires container.entrypoint and/or container.command."
            )
        dropped = []
        if executor.container.image is not None:
            dropped.append(f"container.image '{executor.container.image}'")
        if executor.resources != ComputeResources():
            dropped.append("resources")
        if dropped:
            warnings.append(
                f"Step '{step.name}' runs as a process of the host with execution profile "
                f"'subprocess/{executor.profile}'; dropped: {' and '.join(dropped)}."
            )
        process = ProcessExecutor(provider="subprocess", profile=executor.profile, command=command)
        return step.model_copy(update={"executor": process})

    def check(self, spec: PlatformSpec) -> None:
        """Whether this installation can run a translated spec (job specification contract §3, no. 3).

        :raises InvalidJob: a profile does not exist, is not provided here, or cannot give what is asked
        """
        for step in spec.steps:
            self._check_step(step)
        if refusal := self.gpu_refusal(spec):
            raise InvalidJob(refusal)

    def _check_step(self, step: StepSpec) -> None:
        executor = step.executor
        profile = self.resolve(executor.provider, executor.profile)
        if profile is None:
            raise InvalidJob(
                f"The execution profile '{executor.provider}/{executor.profile}' specified in step "
                f"'{step.name}' does not exist.{self._why_left_out(executor.provider, executor.profile)}"
            )
        backend = BACKENDS[profile.backend]
        if not backend.provided:
            raise InvalidJob(
                f"Execution profile '{profile}' in step '{step.name}' needs backend '{backend.name}', which "
                f"this installation does not provide. Install {backend.requirement}."
            )
        self._check_nodes(step, profile)
        wants_storage = any(item.name == _PERSISTENT_STORAGE for item in step.environment or [])
        if wants_storage and not profile.config.supports_persistent_storage():
            raise InvalidJob(
                f"The selected execution profile '{profile.name}:{profile.provider}' does not support "
                f"persistent storage required by step '{step.name}'."
            )

    @staticmethod
    def _check_nodes(step: StepSpec, profile: Profile) -> None:
        """Whether the profile's backend can run a step on as many nodes as are asked for."""
        nodes = 1 if isinstance(step.executor, ProcessExecutor) else step.executor.resources.num_nodes
        if nodes > 1 and not BACKENDS[profile.backend].has(SupportsMultiNode):
            raise InvalidJob(
                f"Step '{step.name}' asks for num_nodes: {nodes}, and execution profile '{profile}' runs one node only "
                f"(backend '{profile.backend}'). Use a profile of a backend for several, or num_nodes: 1."
            )

    def _why_left_out(self, provider: str, name: str) -> str:
        """More words for whoever finds a profile in the file and not here."""
        reason = self.left_out.get((provider, name))
        return f" It is configured, and left out because {reason}; see `airflow nemo check`." if reason else ""

    def gpu_refusal(self, spec: PlatformSpec) -> str | None:
        """Why a spec cannot have its GPUs (§9); None when it may.

        Which GPUs the host really has is asked where steps run on this host; elsewhere the step reports it.
        """
        steps = [step for step in spec.steps if step.executor.provider in _GPU_PROVIDERS]
        none_configured = bool(steps) and self.platform.docker.gpu_device_ids == () and self._uses_host_gpus()
        if not none_configured and not any(map(self._lacks_gpus, steps)):
            return None
        return (
            "Invalid job specification: this job requires GPU resources, but the platform is running on "
            "Docker with no GPUs configured. Configure GPUs in the platform config or choose a non-GPU "
            "execution profile."
        )

    def _lacks_gpus(self, step: StepSpec) -> bool:
        """Whether the host's engine would run the step, and has no GPU for it."""
        profile = self.resolve(step.executor.provider, step.executor.profile)
        if self.probe is None or profile is None or not profile.config.local_engine:
            return False
        return self.probe.lacks_gpus(profile, self.platform)

    def _uses_host_gpus(self) -> bool:
        """Runtime `docker`, or `none` with an engine of the host in use."""
        if self.runtime == "none":
            return any(profile.config.local_engine for profile in self.profiles)
        return self.runtime == "docker"
