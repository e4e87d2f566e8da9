"""What is in a configuration file: its faults, what its author should know, and the merged profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.registry import BACKENDS, Lack
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles import Profile, ProfileSet, variables
from nemo_airflow_provider.profiles.configuration import Configuration, Entry, read_configuration
from nemo_airflow_provider.profiles.merge import merge
from nemo_airflow_provider.profiles.textfile import UnreadableFile, read_text


@dataclass(frozen=True, slots=True)
class MergedProfile:
    """A profile as steps get it, and where it comes from.

    :param place: of its entry; None: the runtime alone brings it
    :param changes_built_in: whether the entry changes what the runtime brings
    """

    profile: Profile
    place: str | None
    changes_built_in: bool = False

    @property
    def is_built_in(self) -> bool:
        """Whether the runtime alone brings it: no entry makes or changes it."""
        return self.place is None

    @property
    def origin(self) -> str:
        """`built-in`, or the place of its entry, or both."""
        if self.place is None:
            return "built-in"
        return f"built-in, changed by {self.place}" if self.changes_built_in else self.place

    @property
    def is_listed_only(self) -> bool:
        """Whether it is built in and this version has no code for its steps, which nobody who reads this can mend."""
        return self.is_built_in and BACKENDS[self.profile.backend].backend_path is None

    @property
    def changed(self) -> dict[str, Any]:
        """Keys whose value is not the backend's default, also inside mappings."""
        return self.profile.config.model_dump(mode="json", exclude_defaults=True)

    @property
    def lack(self) -> Lack | None:
        """What keeps this installation from running its steps; None where it can."""
        return BACKENDS[self.profile.backend].lack


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found.

    :param path: the file; None where none is configured
    :param unreadable: why the file could not be read at all
    :param errors: faults of the file or of a variable over it, one a line, each with its place
    :param warnings: what nothing refuses and its author should know
    :param without_effect: places of keys and variables that are accepted and change nothing
    :param profiles: in the order of the listing; empty when there are faults
    :param loopback_address: `platform.loopback_address`
    """

    path: Path | None
    unreadable: str | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    profiles: tuple[MergedProfile, ...] = ()
    loopback_address: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the jobs API can work with it."""
        return self.unreadable is None and not self.errors

    def __str__(self) -> str:
        return f"'{self.path}'" if self.path else "no file (built-in profiles)"


def inspect(path: Path | None, named_by: str | None, environ: Mapping[str, str]) -> FileReport:
    """Read, check and merge a file as the jobs API does. No engine is asked, so all profiles are there.

    :param path: the file; None: built-in profiles and variables alone
    :param named_by: the setting that names the file, for messages; None: a person does
    :param environ: variables that change the configuration are looked up here
    """
    try:
        text = None if path is None else read_text(path, named_by)
        configuration = read_configuration(str(path or ""), text, variables.relevant(environ))
        merged = merge(configuration, probe=None)
    except UnreadableFile as error:
        return FileReport(path, unreadable=str(error))
    except ConfigError as error:
        return FileReport(path, errors=tuple(str(error).splitlines()))
    return FileReport(
        path,
        warnings=(*merged.warnings, *merged.hints),
        without_effect=merged.without_effect,
        profiles=tuple(_described(merged, configuration)),
        loopback_address=merged.platform.loopback_address,
    )


def _described(merged: ProfileSet, configuration: Configuration) -> list[MergedProfile]:
    entries = {(entry.provider, entry.profile): entry for entry in configuration.entries}
    return [_placed(profile, entries.get(profile.key), configuration) for profile in merged.profiles]


def _placed(profile: Profile, entry: Entry | None, configuration: Configuration) -> MergedProfile:
    if entry is None:
        return MergedProfile(profile, None)
    place = entry.place.key or entry.place.source
    if entry.place.line is not None:
        place += f", line {entry.place.line}"
    built_in = BACKENDS[profile.backend].config_class.built_in_profiles(
        configuration.platform.runtime, configuration.switches
    )
    return MergedProfile(profile, place, profile.key in built_in)
