"""The job a person writes: request body and `platform_spec` (job specification contract §1 and §2).

Unknown keys are accepted, as upstream does; `body.unknown_keys` names them so that a typo does not pass unseen.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, FailFast, Field, field_validator, model_validator

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.limits import Name, NotTooMany, Words


class _Wire(BaseModel):
    """Reads what is known and keeps the rest out."""

    model_config = {"extra": "ignore"}


class SecretReference(_Wire):
    """`from_secret` of an environment item: `secret`, or `workspace/secret`."""

    name: str


class EnvironmentItem(_Wire):
    """One variable of a step's environment: a value or a secret, never both."""

    name: str
    value: str | None = None
    from_secret: SecretReference | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> EnvironmentItem:
        if self.value is None and self.from_secret is None:
            raise ValueError("Either value or from_secret must be provided for environment variables.")
        if self.value is not None and self.from_secret is not None:
            raise ValueError("Only one of value or from_secret can be provided for environment variables.")
        return self


class Quantities(_Wire):
    """Kubernetes quantities, as text."""

    cpu: str | None = None
    memory: str | None = None


_SHM_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?(Mi|Gi|M|G)")


class ComputeResources(_Wire):
    """CPU, memory, nodes and GPUs of one step (configuration contract §5.3)."""

    requests: Quantities = Field(default_factory=Quantities)
    limits: Quantities = Field(default_factory=Quantities)
    num_nodes: int = Field(default=1, ge=1)
    num_gpus: int | None = None
    shm_size: str | None = None

    @field_validator("shm_size")
    @classmethod
    def _megabytes(cls, value: str | None) -> str | None:
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise ValueError("shm_size cannot be empty or whitespace-only")
        if not _SHM_SIZE.fullmatch(value):
            raise ValueError(
                "shm_size must use a megabyte/gigabyte-scale suffix: Mi, Gi, M, or G (e.g. '1Gi', '512Mi', '2G')."
            )
        return value


class Container(_Wire):
    """What runs in the container; an absent image is the profile's default task image."""

    image: str | None = Field(default=None, min_length=1)
    entrypoint: Words = Field(default_factory=list)
    command: Words = Field(default_factory=list)


class _ContainerExecutor(_Wire):
    profile: str = "default"
    container: Container
    resources: ComputeResources = Field(default_factory=ComputeResources)


class CpuExecutor(_ContainerExecutor):
    """One container without GPU."""

    provider: Literal["cpu"]


class GpuExecutor(_ContainerExecutor):
    """One container with GPUs."""

    provider: Literal["gpu"]


class DistributedGpuExecutor(_ContainerExecutor):
    """Containers on `resources.num_nodes` nodes."""

    provider: Literal["gpu_distributed"]


#: The provider of steps that are processes, not containers.
PROCESS_PROVIDER = "subprocess"


class ProcessExecutor(_Wire):
    """A process on the worker's host."""

    provider: Literal["subprocess"]
    profile: str = "default"
    command: Words = Field(default_factory=list)

    @field_validator("command")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("subprocess execution requires command to be set")
        return value

    @model_validator(mode="before")
    @classmethod
    def _present(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("command") is None:
            return {**data, "command": []}
        return data


ContainerExecutor = CpuExecutor | GpuExecutor | DistributedGpuExecutor
Executor = Annotated[ContainerExecutor | ProcessExecutor, Field(discriminator="provider")]


class Lifecycle(_Wire):
    """Timers of a step; 0 or less switches staleness off."""

    staleness_timeout_seconds: int = 0


class Secret(_Wire):
    """Accepted and stored; no backend reads it (as upstream)."""

    name: str
    value: str | None = None
    ref_id: str | None = None


class StepSpec(_Wire):
    """One step of a job."""

    name: Name
    environment: Annotated[
        list[EnvironmentItem] | None,
        FailFast(),
        BeforeValidator(lambda value: [] if value == {} else value),
    ] = None
    executor: Executor
    config: dict[str, Any] = Field(default_factory=dict)
    lifecycle: Lifecycle = Field(default_factory=Lifecycle)


class PlatformSpec(_Wire):
    """The ordered steps of a job."""

    steps: Annotated[list[StepSpec], NotTooMany]
    secrets: Annotated[list[Secret] | None, FailFast()] = None

    @model_validator(mode="after")
    def _steps_are_told_apart(self) -> PlatformSpec:
        if not self.steps:
            raise ValueError("At least one step is required in the job specification.")
        if len({step.name for step in self.steps}) != len(self.steps):
            raise ValueError("Each step must have a unique name.")
        return self

    def shape(self) -> list[tuple[str, str, str]]:
        """(step name, provider, profile) of each step, in order: what makes two jobs share a DAG."""
        return [(step.name, step.executor.provider, step.executor.profile) for step in self.steps]


class JobSpec(_Wire):
    """Everything of a job but its name: what a run carries as its conf.

    :param spec: free form, echoed
    :param source: any string, also empty
    """

    description: str | None = None
    project: str | None = None
    spec: dict[str, Any]
    platform_spec: PlatformSpec
    source: str
    ownership: dict[str, Any] | None = None
    custom_fields: dict[str, Any] | None = None
    output_location: str | None = None

    @field_validator("output_location")
    @classmethod
    def _bare_fileset(cls, value: str | None) -> str | None:
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise ValueError("output_location must not be empty")
        if "#" in value:
            raise ValueError("subpath in output_location is not yet supported")
        if "/" in value:
            raise ValueError("output_location must be a bare fileset name; the workspace is implied by the request")
        if len(value) > 63:
            raise ValueError("output_location must be at most 63 characters")
        if not names.is_name(value):
            raise ValueError(
                "output_location is not a valid fileset name. Use 2 to 63 characters: a lower-case letter, "
                "then lower-case letters, digits, '-', '@', '.', '+' or '_'."
            )
        return value


class JobRequest(JobSpec):
    """Body of `POST …/jobs`; a name is made from `source` when absent."""

    name: Name | None = None

    @model_validator(mode="after")
    def _fileset_name_fits(self) -> JobRequest:
        if self.name and self.output_location is None:
            limit = names.MAX_NAME_WITHOUT_OUTPUT_LOCATION
            if len(self.name) > limit:
                raise ValueError(
                    f"name must be at most {limit} characters when output_location is not set, because the "
                    "job's artifact fileset is named 'job-fileset-<name>'"
                )
        return self
