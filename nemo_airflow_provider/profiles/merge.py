"""Built-in profiles and the file's own become one list (configuration contract §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nemo_airflow_provider.backends.config import ProfileKey
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.profiles.configuration import Configuration, Entry
from nemo_airflow_provider.profiles.profile_set import Profile, ProfileSet


def merge(configuration: Configuration, docker_answers: Callable[[], bool] | None) -> ProfileSet:
    """The profiles of a configuration.

    :param docker_answers: asks the host's engine; called at most once, and only when it matters. None:
        profiles are listed as configured
    """
    merged = _Merge(configuration, silent=_engine_is_silent(configuration, docker_answers))
    merged.add_built_ins()
    for entry in configuration.entries:
        merged.add(entry)
    return ProfileSet(
        runtime=merged.runtime,
        profiles=tuple(merged.profiles.values()),
        platform=configuration.platform,
        warnings=(*configuration.warnings, *merged.warnings),
        without_effect=configuration.without_effect,
        hints=tuple(hint for entry in configuration.entries for hint in _hints(entry, configuration)),
        on_host=frozenset(entry.profile for entry in configuration.entries if entry.provider == "subprocess"),
    )


def _engine_is_silent(configuration: Configuration, docker_answers: Callable[[], bool] | None) -> bool:
    """Whether the host's engine was asked and did not answer; only a backend that is provided here asks."""
    if docker_answers is None or not any(
        backend.config_class.local_engine and backend.provided for backend in BACKENDS.values()
    ):
        return False
    matters = configuration.platform.runtime == "docker" or any(
        entry.config.local_engine for entry in configuration.entries
    )
    return matters and not docker_answers()


def _built_ins(configuration: Configuration) -> Iterator[Profile]:
    for name, backend in BACKENDS.items():
        keys = backend.config_class.built_in_profiles(configuration.platform.runtime, configuration.switches)
        for provider, profile in keys:
            yield Profile(provider, profile, name, configuration.defaults[name])


class _Merge:
    """The list while it grows; a mapping keeps a replaced profile at its place."""

    def __init__(self, configuration: Configuration, *, silent: bool) -> None:
        self._configuration = configuration
        self._silent = silent
        self.profiles: dict[ProfileKey, Profile] = {}
        self.warnings: list[str] = []
        self.runtime: str = configuration.platform.runtime
        if silent and self.runtime == "docker":
            self.runtime = "none"
            self.warnings.append("platform.runtime is 'docker' but Docker does not answer: treated as 'none'.")

    def add_built_ins(self) -> None:
        for profile in _built_ins(self._configuration):
            if self._kept(profile):
                self.profiles[profile.key] = profile
        if not self.profiles:
            self.warnings.append(f"No default executors defined for runtime type: {self.runtime}")

    def add(self, entry: Entry) -> None:
        profile = Profile(entry.provider, entry.profile, entry.backend.name, entry.config)
        if not self._kept(profile):
            return
        present = self.profiles.get(profile.key)
        if present is not None and present.backend == profile.backend:
            config = entry.config.merged_over(present.config, frozenset(entry.written))
            profile = Profile(entry.provider, entry.profile, entry.backend.name, config)
        self.profiles[profile.key] = profile

    def _kept(self, profile: Profile) -> bool:
        config = profile.config
        if config.needs_cluster and self.runtime == "none":
            reason = "platform runtime is NONE"
        elif config.local_engine and self._silent:
            reason = f"{config.local_engine} is unavailable"
        else:
            return True
        self.warnings.append(f"Skipping executor profile {profile} using backend '{profile.backend}' because {reason}.")
        return False


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
