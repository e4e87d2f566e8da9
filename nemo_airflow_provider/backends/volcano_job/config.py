"""Profile keys of the Volcano backend: those of every pod, and Volcano's (configuration contract §5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from nemo_airflow_provider.backends.config import ProfileKey
from nemo_airflow_provider.backends.kube.config import PodConfig


class VolcanoJobConfig(PodConfig):
    """`config:` of a Volcano profile."""

    built_in: ClassVar[Mapping[str, tuple[ProfileKey, ...]]] = {
        "kubernetes": (("gpu_distributed", "default"),),
    }

    queue: str = Field(default="default", min_length=1, description="Volcano queue.")
    scheduler_name: str = Field(default="volcano", min_length=1, description="Scheduler of the job and of its pods.")
    max_retry: int = Field(default=0, ge=0, description="How often Volcano itself restarts the job.")
    plugins: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Volcano plugins and their arguments; `pytorch` is added for more than one node.",
    )
    enable_multi_node_networking: bool = Field(
        default=True, description="Annotate the pods of multi-node jobs for the cluster's network policy."
    )
