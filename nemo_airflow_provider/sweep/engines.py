"""Which engines a sweep looks through: one backend a scope, and the profiles that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nemo_airflow_provider.backends.base import Backend, BackendConfig, SupportsSweep
from nemo_airflow_provider.backends.registry import BACKENDS, create_backend
from nemo_airflow_provider.profiles import Profile


@dataclass(frozen=True)
class SweptEngine:
    """One engine.

    :param backend: of one of the profiles
    :param power: the same object
    :param configs: keys of all profiles of the installation, by `provider/name`
    :param default: keys for steps whose profile is gone
    """

    backend: Backend
    power: SupportsSweep
    configs: Mapping[str, BackendConfig]
    default: BackendConfig

    def config(self, profile: str) -> BackendConfig:
        """Keys of a step's profile."""
        return self.configs.get(profile, self.default)

    def ttl_seconds(self, profiles: Iterable[str]) -> float:
        """How long a job of these profiles is kept after its end: as long as the longest of them."""
        return max((self.config(profile).ttl_seconds_after_finished for profile in profiles), default=0)


def swept_engines(profiles: Iterable[Profile], configs: Mapping[str, BackendConfig]) -> list[SweptEngine]:
    """The engines of these profiles that can be swept, each once.

    :param configs: see `SweptEngine`
    """
    found: dict[str, SweptEngine] = {}
    for profile in profiles:
        if not BACKENDS[profile.backend].provided:
            continue
        backend = create_backend(profile)
        if isinstance(backend, SupportsSweep):
            found.setdefault(backend.scope(), SweptEngine(backend, backend, configs, profile.config))
    return list(found.values())
