"""Profile keys of the Kubernetes Job backend: they are those of every pod (configuration contract §5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from nemo_airflow_provider.backends.config import ProfileKey
from nemo_airflow_provider.backends.kube.config import PodConfig


class KubernetesJobConfig(PodConfig):
    """`config:` of a Kubernetes Job profile."""

    built_in: ClassVar[Mapping[str, tuple[ProfileKey, ...]]] = {
        "kubernetes": (("cpu", "default"), ("gpu", "default"), ("cpu", "gpu"), ("gpu", "gpu")),
    }
