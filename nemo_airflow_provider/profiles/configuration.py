"""From the file and the environment to checked sections: every fault is found before any is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nemo_airflow_provider.backends.config import BackendConfig
from nemo_airflow_provider.backends.registry import BACKENDS, DEFAULT_BACKEND, LEFT_OUT, BackendEntry
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles import variables
from nemo_airflow_provider.profiles.platform import PlatformConfig
from nemo_airflow_provider.profiles.sections import JobsSection, ProfileEntry
from nemo_airflow_provider.profiles.source import Place, Section, read_sections
from nemo_airflow_provider.profiles.strict import near_name, unknown_keys, validate


@dataclass(frozen=True, slots=True)
class Entry:
    """One checked item of `jobs.executors`.

    :param written: its `config` as written, without defaults
    """

    provider: str
    profile: str
    backend: BackendEntry
    config: BackendConfig
    written: Mapping[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Configuration:
    """What file and environment say, before built-in profiles and engines are looked at.

    :param defaults: by backend: `config` of its built-in profiles
    :param written_defaults: by backend: what `executor_defaults` writes
    :param switches: `enable_…` keys of `jobs:`
    :param without_effect: places of keys that are accepted and change nothing
    """

    platform: PlatformConfig
    defaults: Mapping[str, BackendConfig]
    written_defaults: Mapping[str, Mapping[str, Any]]
    switches: Mapping[str, bool | None]
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]
    without_effect: tuple[str, ...]


class _Keys(Protocol):
    """A model that says which of its keys change nothing."""

    without_effect: frozenset[str]
    unsupported: frozenset[str]


@dataclass
class _Findings:
    """Collects while the sections are read."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)

    def note(self, keys: _Keys, data: Mapping[str, Any], place: Place) -> None:
        """Remember which keys of `data` change nothing."""
        for key in data:
            if key in keys.without_effect:
                self.without_effect.append(str(place.child(key)))
            if key in keys.unsupported:
                self.warnings.append(f"{place.child(key)}: accepted without effect, there is no such feature")


def read_configuration(source: str, text: str | None, environ: Mapping[str, str]) -> Configuration:
    """Check the text of a file together with the environment.

    :param source: path of the file
    :param text: its content; None when there is no file
    :raises ConfigError: lists every fault, one a line
    """
    found = _Findings(warnings=variables.unread(environ), without_effect=variables.without_effect(environ))
    sections = {} if text is None else read_sections(source, text, ("platform", "jobs"), found.problems)
    platform = _platform(_section(sections, source, "platform"), environ, found)
    jobs, data, place = _jobs(_section(sections, source, "jobs"), environ, found)
    beneath = {
        name: variables.defaults(entry.config_class, environ, found.problems) for name, entry in BACKENDS.items()
    }
    written = _mapping(data.get("executor_defaults"))
    place_of_defaults = place.child("executor_defaults")
    found.problems.extend(unknown_keys(written, BACKENDS, place_of_defaults))
    defaults = {
        name: _config(entry, written.get(name, {}), beneath[name], place_of_defaults.child(name), found)
        for name, entry in BACKENDS.items()
    }
    items, place_of_items = variables.executors(environ, found.problems) or (
        data.get("executors"),
        place.child("executors"),
    )
    entries = _entries(items if isinstance(items, list) else [], place_of_items, beneath, found)
    if found.problems:
        raise ConfigError("\n".join(found.problems))
    return Configuration(
        platform=platform,
        defaults={name: config for name, config in defaults.items() if config is not None},
        written_defaults=written,
        switches={"enable_subprocess_executor": jobs.enable_subprocess_executor},
        entries=entries,
        warnings=tuple(found.warnings),
        without_effect=tuple(found.without_effect),
    )


def _section(sections: Mapping[str, Section], source: str, name: str) -> Section:
    return sections.get(name) or Section(Place(source, path=(name,)), {})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _platform(section: Section, environ: Mapping[str, str], found: _Findings) -> PlatformConfig:
    found.note(PlatformConfig, section.data, section.place)
    found.warnings.extend(_probable_typos(section))
    data = variables.platform(section.data, environ, found.problems)
    return validate(PlatformConfig, data, section.place, found.problems) or PlatformConfig()


def _probable_typos(section: Section) -> list[str]:
    """Warnings, not faults: upstream may have a key of nearly the same name."""
    known = [*PlatformConfig.model_fields, *PlatformConfig.without_effect]
    return [
        f"{section.place.child(str(key))}: unknown key, ignored{near}"
        for key in section.data
        if key not in known and (near := near_name(str(key), known, cutoff=0.8))
    ]


def _jobs(
    section: Section, environ: Mapping[str, str], found: _Findings
) -> tuple[JobsSection, Mapping[str, Any], Place]:
    found.note(JobsSection, section.data, section.place)
    data = variables.jobs(section.data, environ, found.problems)
    jobs = validate(JobsSection, data, section.place, found.problems) or JobsSection()
    return jobs, data, section.place


def _config(
    backend: BackendEntry, written: object, beneath: Mapping[str, Any], place: Place, found: _Findings
) -> BackendConfig | None:
    """A backend's config out of what is written and, beneath it, what the environment says."""
    if isinstance(written, dict):
        found.note(backend.config_class, written, place)
        written = variables.laid_over(beneath, written)
    return validate(backend.config_class, written, place, found.problems)


def _entries(
    items: Sequence[object], place: Place, beneath: Mapping[str, Mapping[str, Any]], found: _Findings
) -> tuple[Entry, ...]:
    entries = []
    seen = set()
    for index, item in enumerate(items):
        entry = _entry(item, place.child(index), beneath, found)
        if entry is None:
            continue
        key = (entry.provider, entry.profile)
        if key in seen:
            found.problems.append(
                f"{entry.place}: Duplicate executor profile found for provider '{entry.provider}' and "
                f"profile '{entry.profile}'"
            )
        seen.add(key)
        entries.append(entry)
    return tuple(entries)


def _entry(item: object, place: Place, beneath: Mapping[str, Mapping[str, Any]], found: _Findings) -> Entry | None:
    """The checked entry; None when it is faulty, or of a backend that is left out."""
    outer = validate(ProfileEntry, item, place, found.problems)
    if not isinstance(item, dict):
        return None
    # The config is checked even when the outer shape is faulty, so that all faults are told at once.
    written = item.get("config")
    name = item.get("backend") or (DEFAULT_BACKEND if written is not None else None)
    if name in LEFT_OUT:
        found.warnings.append(_skipped(item, name))
        return None
    backend = _backend(name, place, found.problems)
    if backend is None:
        return None
    if written is None and backend.config_class.config_required:
        found.problems.append(
            f"{place}: 'config' is required with backend '{name}'; write 'config: {{}}' for its defaults"
        )
        return None
    config = _config(backend, written or {}, beneath[backend.name], place.child("config"), found)
    if outer is None:
        return None
    provider = outer.provider or backend.providers[0]
    if provider not in backend.providers:
        found.problems.append(_refused_provider(provider, backend, outer, place))
        return None
    if config is None:
        return None
    return Entry(provider, outer.profile, backend, config, written or {}, place)


def _backend(name: object, place: Place, problems: list[str]) -> BackendEntry | None:
    allowed = ", ".join(BACKENDS)
    if name is None:
        problems.append(f"{place}: 'backend' is required, one of {allowed}")
    elif not isinstance(name, str):
        pass  # the outer shape has complained
    elif name not in BACKENDS:
        near = near_name(name, BACKENDS)
        problems.append(f"{place.child('backend')}: unknown backend '{name}', allowed are {allowed}{near}")
    else:
        return BACKENDS[name]
    return None


def _skipped(item: Mapping[str, Any], backend: str) -> str:
    profile = f"{item.get('provider', 'cpu')}/{item.get('profile', 'default')}"
    return f"Skipping executor profile {profile} using backend '{backend}' because this product has no such backend."


def _refused_provider(provider: str, backend: BackendEntry, entry: ProfileEntry, place: Place) -> str:
    assumed = "" if entry.backend else f" (no 'backend' is given, so '{backend.name}' is assumed)"
    return (
        f"{place.child('provider')}: backend '{backend.name}' does not accept provider '{provider}', only "
        f"{', '.join(backend.providers)}{assumed}{near_name(provider, backend.providers)}"
    )
