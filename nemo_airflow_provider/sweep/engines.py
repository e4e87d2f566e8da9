"""Which engines a sweep looks through: one backend a scope, and the profiles that share it."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from nemo_airflow_provider.backends.base import Backend, BackendConfig, Site
from nemo_airflow_provider.backends.powers import SupportsSweep
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

    def ttl_seconds(self, profiles: Collection[str]) -> float:
        """How long what ran under these profiles is kept after its end: as long as the longest of them says.

        Where one is not known, as of a DAG that the jobs API does not show, any profile of the backend may be it, and
        what is removed too early is lost.

        :param profiles: `provider/name` of each step; empty where nobody knows
        """
        if profiles and all(profile in self.configs for profile in profiles):
            known = [self.configs[profile] for profile in profiles]
        else:
            alike = (config for config in self.configs.values() if isinstance(config, type(self.default)))
            known = [self.default, *alike]
        return max(config.ttl_seconds_after_finished for config in known)


def swept_engines(profiles: Iterable[Profile], site: Site, wanted: Container[str] | None = None) -> list[SweptEngine]:
    """The engines that can be swept, each once.

    :param profiles: of the installation
    :param site: the installation
    :param wanted: `provider/name` of those whose engines are meant; None: all
    """
    known = list(profiles)
    configs = {str(profile): profile.config for profile in known}
    found: dict[str, SweptEngine] = {}
    for profile in known:
        if (wanted is not None and str(profile) not in wanted) or not BACKENDS[profile.backend].provided:
            continue
        backend = create_backend(profile, site)
        if isinstance(backend, SupportsSweep):
            found.setdefault(backend.scope(), SweptEngine(backend, backend, configs, profile.config))
    return list(found.values())
