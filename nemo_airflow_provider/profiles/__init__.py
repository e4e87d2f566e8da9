"""Execution profiles: which (provider, profile) a job may name, and how its steps then run.

`load_profiles` is the door. It is called for every request, so the checked file is remembered; the text is
read each time, so a changed file counts at once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles import variables
from nemo_airflow_provider.profiles.configuration import Configuration, read_configuration
from nemo_airflow_provider.profiles.merge import merge
from nemo_airflow_provider.profiles.platform import PlatformConfig
from nemo_airflow_provider.profiles.profile_set import Probe, Profile, ProfileSet
from nemo_airflow_provider.profiles.textfile import read_text

__all__ = ["PlatformConfig", "Probe", "Profile", "ProfileSet", "load_profiles"]

log = logging.getLogger(__name__)

_PATH_VARIABLE = "NHX_CONFIG_FILE_PATH"


def load_profiles(path: Path | None, *, environ: Mapping[str, str], probe: Probe | None) -> ProfileSet:
    """The profiles of a configuration file.

    :param path: the file; None: built-in defaults only
    :param environ: variables that change the configuration are looked up here
    :param probe: asks the engines whether they are there; None: nobody asks, profiles are listed as configured
    :raises ConfigError: the file cannot be read, or it or a variable is wrong; lists every fault, one a line
    """
    text = None if path is None else read_text(path, _setting_of(path, environ))
    relevant = tuple(sorted(variables.relevant(environ).items()))
    checked = _checked(str(path or ""), text, relevant)
    if isinstance(checked, str):
        raise ConfigError(checked)
    profiles = merge(checked, probe)
    _warn(text, profiles.warnings)
    return profiles


@lru_cache(maxsize=8)
def _checked(source: str, text: str | None, environ: tuple[tuple[str, str], ...]) -> Configuration | str:
    """The configuration, or what is wrong with it: that is as dear to find out, and asked for as often."""
    try:
        return read_configuration(source, text, dict(environ))
    except ConfigError as error:
        return str(error)


@lru_cache(maxsize=8)
def _warn(text: str | None, warnings: tuple[str, ...]) -> None:  # noqa: ARG001 - a changed file is told anew
    """Log warnings, once for each state of the file and of the host's engine."""
    for warning in warnings:
        log.warning("%s", warning)


def _setting_of(path: Path, environ: Mapping[str, str]) -> str:
    named = environ.get(_PATH_VARIABLE)
    return _PATH_VARIABLE if named and Path(named).expanduser() == path else "[nemo] config_file"
