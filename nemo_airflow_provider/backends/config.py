"""Keys that the `config:` of every profile has. A backend adds its own in its folder's `config.py`.

A config class also declares, as class attributes, what the merge of profiles has to know about its backend,
so that no code outside the folder asks for a backend's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nemo_airflow_provider.backends.reserved import PLATFORM_NAMES_SCHEMA, managed_names, reserved_names
from nemo_airflow_provider.model.spec import ComputeResources, Quantities

#: (provider, profile): what names a profile.
ProfileKey = tuple[str, str]


class StrictModel(BaseModel):
    """A part of the configuration file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImagePullSecret(StrictModel):
    """Names a Secret of the namespace."""

    name: str = Field(min_length=1, description="Name of the Secret.")


class AirflowOptions(StrictModel):
    """Where Airflow puts the task that watches a step. An absent key is Airflow's own default.

    The bounds are those of Airflow's tables: what is beyond them stops its scheduler.
    """

    queue: str | None = Field(
        default=None, min_length=1, max_length=256, description="Queue of the step's Airflow task."
    )
    pool: str | None = Field(default=None, min_length=1, max_length=256, description="Pool of the step's Airflow task.")
    priority_weight: int | None = Field(
        default=None, ge=-(2**31), le=2**31 - 1, description="Priority weight of the Airflow task."
    )
    executor: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Executor of the Airflow task, where several are configured.",
    )


class BackendConfig(StrictModel):
    """Keys that every backend's `config:` has (configuration contract §4, choices: extra profile keys)."""

    #: Heading of its keys on the reference page, where several backends share them.
    title: ClassVar[str] = "Keys of every backend"
    #: Keys accepted for files shared with upstream that change nothing here.
    without_effect: ClassVar[frozenset[str]] = frozenset({"launcher_tool_path"})
    #: Those of them whose absence a workload can feel: setting one gives a warning.
    unsupported: ClassVar[frozenset[str]] = frozenset()
    #: Whether a profile entry must have a `config:`.
    config_required: ClassVar[bool] = True
    #: The engine on the host that must answer; its profiles are dropped when it does not. For messages.
    local_engine: ClassVar[str | None] = None
    #: Whether steps run with the rights of the worker's own user.
    runs_as_worker: ClassVar[bool] = False
    #: Whether profiles are dropped when `platform.runtime` is `none`.
    needs_cluster: ClassVar[bool] = False
    #: Built-in profiles by `platform.runtime`, in order.
    built_in: ClassVar[Mapping[str, tuple[ProfileKey, ...]]] = {}
    #: Environment variables that replace the default of a key: variable → key path.
    environment_defaults: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    ttl_seconds_before_active: int = Field(
        default=1800, ge=0, description="Most seconds a step may stay pending after it was submitted."
    )
    ttl_seconds_active: int = Field(
        default=86400, ge=0, description="Most seconds a step may run; pending and paused time do not count."
    )
    ttl_seconds_after_finished: int = Field(default=3600, ge=0, description="Seconds that finished resources are kept.")
    cleanup_completed_jobs_immediately: bool = Field(
        default=True, description="Remove the resources of successful steps at once."
    )
    launcher_tool_path: str = Field(
        default="/tools/jobs-launcher", description="Accepted without effect: no launcher is needed."
    )
    default_task_image: str | None = Field(
        default=None,
        min_length=1,
        description="Image of steps that name none; else `<platform.image_registry>/nhx-tasks:<platform.image_tag>`.",
    )
    env: dict[str, str] = Field(
        default_factory=dict,
        description="Environment of every task; steps may override it. Names of the platform are refused.",
        json_schema_extra={"propertyNames": {"not": PLATFORM_NAMES_SCHEMA}},
    )
    graceful_shutdown_timeout_seconds: int = Field(
        default=30, ge=0, description="Seconds between the polite and the hard stop of a workload."
    )
    pause: Literal["stop", "freeze"] = Field(
        default="stop",
        description="What a pause does: `stop` ends the workload, and resuming starts the step anew; "
        "`freeze` keeps it in memory.",
    )
    airflow: AirflowOptions = Field(
        default_factory=AirflowOptions, description="Placement of the Airflow task that watches the step."
    )

    @field_validator("env")
    @classmethod
    def _leave_the_platforms_names_alone(cls, value: dict[str, str]) -> dict[str, str]:
        complaints = []
        if reserved := reserved_names(value):
            complaints.append(f"Profile environment keys must not conflict with platform-reserved names: {reserved}")
        if managed := managed_names(value):
            complaints.append(
                f"Profile environment keys must not conflict with platform-reserved auth environment keys: {managed}"
            )
        if complaints:
            raise ValueError("; ".join(complaints))
        return value

    @classmethod
    def built_in_profiles(
        cls,
        runtime: str,
        switches: Mapping[str, bool | None],  # noqa: ARG003 - for backends that have a switch
    ) -> tuple[ProfileKey, ...]:
        """(provider, profile) of the built-ins of a runtime.

        :param runtime: `platform.runtime`
        :param switches: `enable_…` keys of `jobs:`; None where the file leaves it to the runtime
        """
        return cls.built_in.get(runtime, ())

    def merged_over(self, built_in: Self, given: frozenset[str]) -> Self:
        """This config over a built-in of the same class: the keys of `given` win, each as a whole (§7)."""
        return built_in.model_copy(update={key: getattr(self, key) for key in given})

    @property
    def is_bound_to_host(self) -> bool:
        """Whether only the host that started a step can watch it: workers on another cannot take it over."""
        return False

    @property
    def most_platform_retries(self) -> int:
        """How often a step is started again after a fault that is not its own."""
        return 0

    def supports_persistent_storage(self) -> bool:
        """Whether a step may ask for storage that outlives it (configuration contract §5.6)."""
        return False

    def public(self) -> dict[str, Any]:
        """The config as `GET /execution-profiles` shows it, readable by the unmodified client."""
        return self.model_dump(mode="json")


class ProfileQuantities(Quantities):
    """CPU and memory of one workload, in Kubernetes notation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu: str | None = Field(default=None, description="CPUs, for example `500m` or `2`.")
    memory: str | None = Field(default=None, description="Memory, for example `4Gi`.")


class ProfileResources(ComputeResources):
    """Resources of steps that do not name their own; a step's values win field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: ProfileQuantities = Field(default_factory=ProfileQuantities, description="What the scheduler sets aside.")
    limits: ProfileQuantities = Field(
        default_factory=ProfileQuantities, description="What the workload may not exceed."
    )
    num_nodes: int = Field(default=1, ge=1, description="Nodes of a distributed step.")
    num_gpus: int | None = Field(default=None, ge=0, description="GPUs of each node; beats `num_gpus`.")
    shm_size: str | None = Field(
        default=None, description="Shared memory of GPU steps, in Mi, Gi, M or G; else 8Gi for each GPU."
    )


class ContainerConfig(BackendConfig):
    """Keys of the backends that run images."""

    title: ClassVar[str] = "Keys of the backends that run images"

    resources: ProfileResources = Field(
        default_factory=ProfileResources, description="Resources of steps that do not name their own."
    )
    num_gpus: int = Field(default=1, ge=0, description="GPUs of a GPU step that does not say how many.")
    ttl_seconds_image_pull: int = Field(
        default=600, ge=0, description="Seconds an image pull may keep failing; 0 switches the limit off."
    )
    platform_retries: int = Field(
        default=3, ge=0, le=100, description="How often a step is started again after a fault that is not its own."
    )

    @property
    def most_platform_retries(self) -> int:
        """See `BackendConfig.most_platform_retries`."""
        return self.platform_retries
