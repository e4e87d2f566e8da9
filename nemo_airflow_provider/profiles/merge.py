"""Built-in profiles and the file's own become one list (configuration contract §7)."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_airflow_provider.backends.config import ProfileKey
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.profiles.configuration import Configuration, Entry
from nemo_airflow_provider.profiles.profile_set import Probe, Profile, ProfileSet


def merge(configuration: Configuration, probe: Probe | None) -> ProfileSet:
    """The profiles of a configuration.

    :param probe: asks the engines, when it matters. None: profiles are listed as configured
    """
    merged = _Merge(configuration, probe)
    merged.add_built_ins()
    for entry in configuration.entries:
        merged.add(entry)
    merged.drop_silent()
    return ProfileSet(
        runtime=merged.runtime,
        profiles=tuple(merged.profiles.values()),
        platform=configuration.platform,
        warnings=(*configuration.warnings, *merged.warnings),
        without_effect=configuration.without_effect,
        hints=tuple(hint for entry in configuration.entries for hint in _hints(entry, configuration)),
        left_out=merged.left_out,
        on_host=frozenset(entry.profile for entry in configuration.entries if entry.provider == "subprocess"),
        probe=probe,
    )


def _built_ins(configuration: Configuration) -> Iterator[Profile]:
    for name, backend in BACKENDS.items():
        keys = backend.config_class.built_in_profiles(configuration.platform.runtime, configuration.switches)
        for provider, profile in keys:
            yield Profile(provider, profile, name, configuration.defaults[name])


class _Merge:
    """The list while it grows; a mapping keeps a replaced profile at its place."""

    def __init__(self, configuration: Configuration, probe: Probe | None) -> None:
        self._configuration = configuration
        self._probe = probe
        self._built_ins = list(_built_ins(configuration))
        self.profiles: dict[ProfileKey, Profile] = {}
        self.left_out: dict[ProfileKey, str] = {}
        self.warnings: list[str] = []
        self.runtime: str = configuration.platform.runtime
        if self.runtime == "docker" and any(map(self._is_silent, self._built_ins)):
            self.runtime = "none"
            self.warnings.append("platform.runtime is 'docker' but Docker does not answer: treated as 'none'.")

    def add_built_ins(self) -> None:
        self.profiles = {profile.key: profile for profile in self._built_ins}
        if all(map(self._is_silent, self._built_ins)):
            self.warnings.append(f"No default executors defined for runtime type: {self.runtime}")

    def add(self, entry: Entry) -> None:
        profile = Profile(entry.provider, entry.profile, entry.backend.name, entry.config)
        present = self.profiles.get(profile.key)
        if present is not None and present.backend == profile.backend:
            config = entry.config.merged_over(present.config, frozenset(entry.written))
            profile = Profile(entry.provider, entry.profile, entry.backend.name, config)
        self.profiles[profile.key] = profile

    def drop_silent(self) -> None:
        """Leave out what cannot run now. Last, so that what an entry inherits does not hang on an engine's mood."""
        for profile in list(self.profiles.values()):
            if (reason := self._obstacle(profile)) is not None:
                del self.profiles[profile.key]
                self.left_out[profile.key] = reason
                self.warnings.append(
                    f"Skipping executor profile {profile} using backend '{profile.backend}' because {reason}."
                )

    def _obstacle(self, profile: Profile) -> str | None:
        if profile.config.needs_cluster and self.runtime == "none":
            return "platform runtime is NONE"
        if self._is_silent(profile):
            return f"{profile.config.local_engine} is unavailable"
        return None

    def _is_silent(self, profile: Profile) -> bool:
        """Whether its engine was asked and did not answer; only a backend that is provided here asks."""
        if self._probe is None or not profile.config.local_engine or not BACKENDS[profile.backend].provided:
            return False
        return not self._probe.answers(profile, self._configuration.platform)


def _hints(entry: Entry, configuration: Configuration) -> Iterator[str]:
    """What of `executor_defaults` an entry may be believed to inherit, and does not."""
    backend = entry.backend.name
    defaults = configuration.written_defaults.get(backend, {})
    if not _inherits(entry, configuration):
        if missing := sorted(set(defaults) - set(entry.written)):
            yield (
                f"{entry.place}: profile '{entry.provider}/{entry.profile}' does not inherit "
                f"{', '.join(missing)} from executor_defaults.{backend}: only built-in profiles do. Repeat "
                "what it needs."
            )
        return
    for key, value in entry.written.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict) and (lost := sorted(set(default) - set(value))):
            yield (
                f"{entry.place.child('config', key)}: replaces executor_defaults.{backend}.{key} as a whole, "
                f"so its {', '.join(lost)} does not count. Repeat what it needs."
            )


def _inherits(entry: Entry, configuration: Configuration) -> bool:
    """Whether the entry changes a built-in profile of the same backend."""
    key = (entry.provider, entry.profile)
    return any(profile.key == key and profile.backend == entry.backend.name for profile in _built_ins(configuration))
