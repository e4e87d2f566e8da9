"""Profile keys of every backend that makes pods (configuration contract §5.3).

Kubernetes' own structures (tolerations, affinity, security contexts) keep Kubernetes' camelCase keys and are
passed on as they are: the cluster knows them better than we do.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from nemo_airflow_provider.backends.config import ContainerConfig, ImagePullSecret, StrictModel
from nemo_airflow_provider.backends.container.labels import IDENTITY


class Metadata(StrictModel):
    """Labels and annotations of an object."""

    labels: dict[str, str] = Field(default_factory=dict, description="Labels; they win over the platform's own.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations.")

    @field_validator("labels", "annotations")
    @classmethod
    def _leave_identity_alone(cls, value: dict[str, str]) -> dict[str, str]:
        if taken := sorted(IDENTITY & value.keys()):
            raise ValueError(f"By {', '.join(taken)} jobs are found again; a profile cannot set them.")
        return value


class ClaimSource(StrictModel):
    """A volume that is a PersistentVolumeClaim."""

    claim_name: str = Field(min_length=1, description="Name of the claim.")
    read_only: bool = Field(default=False, description="Mount it read-only.")


class EmptyDirSource(StrictModel):
    """A volume that lives as long as its pod."""

    medium: str | None = Field(default=None, description="`Memory`, or nothing for the node's disk.")
    size_limit: str | None = Field(default=None, description="Largest size, for example `10Gi`.")


class KeyToPath(StrictModel):
    """Puts one key of a Secret or ConfigMap at a path."""

    key: str = Field(min_length=1, description="Key in the object.")
    path: str = Field(min_length=1, description="File in the volume.")
    mode: int | None = Field(default=None, ge=0, description="Permission bits of the file.")


class SecretSource(StrictModel):
    """A volume that shows a Secret."""

    secret_name: str = Field(min_length=1, description="Name of the Secret.")
    default_mode: int | None = Field(default=None, ge=0, description="Permission bits of the files.")
    optional: bool | None = Field(default=None, description="Whether the Secret may be absent.")
    items: list[KeyToPath] = Field(default_factory=list, description="Keys to show; none means all.")


class ConfigMapSource(StrictModel):
    """A volume that shows a ConfigMap."""

    name: str = Field(min_length=1, description="Name of the ConfigMap.")
    default_mode: int | None = Field(default=None, ge=0, description="Permission bits of the files.")
    optional: bool | None = Field(default=None, description="Whether the ConfigMap may be absent.")
    items: list[KeyToPath] = Field(default_factory=list, description="Keys to show; none means all.")


class PodVolume(StrictModel):
    """One volume beside those that every pod gets; it has exactly one source."""

    name: str = Field(min_length=1, description="Name that mounts refer to.")
    persistent_volume_claim: ClaimSource | None = Field(default=None, description="A claim.")
    empty_dir: EmptyDirSource | None = Field(default=None, description="A directory of the pod.")
    secret: SecretSource | None = Field(default=None, description="A Secret; left out of the profile listing.")
    config_map: ConfigMapSource | None = Field(
        default=None, description="A ConfigMap; left out of the profile listing."
    )

    @model_validator(mode="after")
    def _one_source(self) -> PodVolume:
        sources = (self.persistent_volume_claim, self.empty_dir, self.secret, self.config_map)
        if sum(source is not None for source in sources) != 1:
            raise ValueError(
                "Exactly one of 'persistent_volume_claim', 'empty_dir', 'secret', or 'config_map' must be specified."
            )
        return self

    @property
    def is_public(self) -> bool:
        """Whether the unmodified client can read this volume in the listing (it knows two of the sources)."""
        return self.secret is None and self.config_map is None


class PodVolumeMount(StrictModel):
    """Where the task sees a volume."""

    name: str = Field(min_length=1, description="Name of the volume.")
    mount_path: str = Field(min_length=1, description="Path in the task's container.")
    sub_path: str | None = Field(default=None, description="Directory of the volume that is mounted.")
    read_only: bool = Field(default=False, description="Mount it read-only.")


class PodStorage(StrictModel):
    """Volumes of pods."""

    pvc_name: str = Field(
        default="", description="Claim of persistent job storage; empty switches persistent storage off."
    )
    volume_permissions_image: str = Field(
        default="busybox:1.37", min_length=1, description="Image of the pod that removes job storage; it has `rm`."
    )
    additional_volumes: list[PodVolume] = Field(default_factory=list, description="More volumes.")
    additional_volume_mounts: list[PodVolumeMount] = Field(
        default_factory=list, description="Mounts in the task's container."
    )


class WorkloadIdentity(StrictModel):
    """Projected tokens, which upstream gives to pods. Accepted without effect."""

    token_expiration_seconds: int = Field(default=600, ge=600, description="Accepted without effect.")
    token_audience: str | None = Field(default=None, description="Accepted without effect.")


class PodConfig(ContainerConfig):
    """Keys that every pod-making backend's `config:` has."""

    title: ClassVar[str] = "Keys of the backends that make pods"
    without_effect: ClassVar[frozenset[str]] = ContainerConfig.without_effect | {
        "launcher_image",
        "workload_identity",
    }
    unsupported: ClassVar[frozenset[str]] = frozenset({"workload_identity"})
    needs_cluster: ClassVar[bool] = True

    kubernetes_conn_id: str | None = Field(
        default=None, min_length=1, description="Airflow connection of the cluster; else the worker's own."
    )
    namespace: str | None = Field(
        default=None, min_length=1, description="Namespace; else the variable `POD_NAMESPACE`."
    )
    service_account_name: str = Field(default="default", min_length=1, description="Service account of the pods.")
    automount_service_account_token: bool = Field(
        default=False, description="Give the pods the token of their service account."
    )
    tolerations: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Tolerations, camelCase. On GPU steps, a list that is not empty gets one for `nvidia.com/gpu`.",
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels a node must have to run the pods.")
    affinity: dict[str, Any] = Field(default_factory=dict, description="Affinity of the pods, camelCase.")
    pod_security_context: dict[str, Any] = Field(
        default_factory=dict,
        description="Security context of the pods, camelCase. Over `seccompProfile: {type: RuntimeDefault}`, and "
        "`fsGroup: 2000` for job storage; `null` takes one of these away.",
    )
    container_security_context: dict[str, Any] = Field(
        default_factory=dict,
        description="Security context of the task's container, camelCase. Over `allowPrivilegeEscalation: false`.",
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        default=None, description="When a node pulls the image; without a value, the cluster's own rule."
    )
    image_pull_secrets: list[ImagePullSecret] = Field(
        default_factory=list, description="Pull secrets, after those of `platform.image_pull_secrets`."
    )
    job_metadata: Metadata = Field(default_factory=Metadata, description="Labels and annotations of the job.")
    pod_metadata: Metadata = Field(default_factory=Metadata, description="Those of the pods.")
    storage: PodStorage = Field(default_factory=PodStorage, description="Volumes.")
    scheduler_name: str = Field(
        default="",
        description="Scheduler of the pods, such as `kai-scheduler`; empty: the cluster's own.",
    )
    launcher_image: str = Field(default="", description="Accepted without effect: no launcher is needed.")
    workload_identity: WorkloadIdentity = Field(
        default_factory=WorkloadIdentity, description="Accepted without effect."
    )
    pause: Literal["stop"] = Field(
        default="stop", description="A pause ends the pods, and resuming starts the step anew."
    )

    def supports_persistent_storage(self) -> bool:
        """When a claim is named for it."""
        return self.storage.pvc_name != ""

    def public(self) -> dict[str, Any]:
        """Without secret and config_map volumes and their mounts: the client would fail on one."""
        shown = super().public()
        storage = self.storage
        hidden = {volume.name for volume in storage.additional_volumes if not volume.is_public}
        shown["storage"]["additional_volumes"] = [
            volume.model_dump(mode="json", exclude={"secret", "config_map"})
            for volume in storage.additional_volumes
            if volume.is_public
        ]
        shown["storage"]["additional_volume_mounts"] = [
            mount.model_dump(mode="json") for mount in storage.additional_volume_mounts if mount.name not in hidden
        ]
        return shown
