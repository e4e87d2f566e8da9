"""Which execution profile a step runs under, and where Airflow puts tasks of a profile."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_airflow_provider import settings
from nemo_airflow_provider.backends.powers import SupportsResultFile
from nemo_airflow_provider.backends.registry import BACKENDS, BackendEntry
from nemo_airflow_provider.errors import ConfigError, InvalidJob
from nemo_airflow_provider.profiles import Profile, ProfileSet

log = logging.getLogger(__name__)

_DEFAULT = "default"
_EXAMPLE = "'provider/name', such as 'subprocess/default'"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a step of an author's DAG runs under.

    :param profile: `provider/name`
    :param placement: see `placement_of`
    """

    profile: str
    placement: Mapping[str, Any] = field(default_factory=dict)


def known_profiles() -> ProfileSet | None:
    """The installation's profiles; None, and a warning, while its configuration is broken.

    That is no author's fault, and an import error would take the DAG off its schedule: steps say it when they run.
    """
    try:
        return settings.profiles()
    except ConfigError as error:
        log.warning("Steps will fail until the configuration is mended: %s", error)
        return None


def check_workspace(workspace: str) -> None:
    """Whether there is such a workspace, as far as the configuration can be read.

    :raises InvalidJob: there is none
    """
    try:
        known = settings.workspaces()
    except ConfigError as error:
        log.warning("No workspace is known: %s", error)
        return
    if not isinstance(workspace, str) or workspace not in known:
        raise InvalidJob(f"workspace: there is no workspace {workspace!r}. Allowed: {', '.join(known)}.")


def choose(operator: type, name: str | None, workspace: str, *, hands_back: bool) -> Choice:
    """The profile that an operator runs.

    :param operator: its class: of one backend, or the one that runs any profile
    :param name: `provider/name` that the author asked for; None: the default of the operator's backend
    :param hands_back: whether the step has a result file
    :raises InvalidJob: no such profile or workspace, or it cannot give what is asked
    """
    check_workspace(workspace)
    if name is not None and (not isinstance(name, str) or len(name.split("/")) != 2 or not all(name.split("/"))):
        raise InvalidJob(f"profile: {name!r} is not of the form {_EXAMPLE}.")
    own = _backend_of(operator)
    if name is None and own is None:
        raise InvalidJob(f"profile: it is missing; give {_EXAMPLE}, or use the operator of a backend.")
    profiles = known_profiles()
    if profiles is None:
        return Choice(name or f"{own.providers[0] if own else ''}/{_DEFAULT}")
    profile = _found(profiles, name, own)
    entry = BACKENDS[profile.backend]
    if not entry.provided:
        raise InvalidJob(
            f"profile: '{profile}' needs backend '{entry.name}', which this installation does not provide. "
            f"Install {entry.requirement}."
        )
    if hands_back and not entry.has(SupportsResultFile):
        able = ", ".join(each.name for each in BACKENDS.values() if each.provided and each.has(SupportsResultFile))
        raise InvalidJob(f"result_file: backend '{entry.name}' of '{profile}' hands no files back; these do: {able}.")
    placement, refusal = placement_of(profile)
    if refusal is not None:
        raise InvalidJob(f"profile: {refusal}")
    return Choice(str(profile), placement)


def _backend_of(operator: type) -> BackendEntry | None:
    """The backend whose operator a class is, or is derived from."""
    called = {base.__name__ for base in operator.__mro__}
    return next((entry for entry in BACKENDS.values() if entry.operator in called), None)


def _found(profiles: ProfileSet, name: str | None, own: BackendEntry | None) -> Profile:
    allowed = [profile for profile in profiles.profiles if own is None or profile.backend == own.name]
    for profile in allowed:
        if str(profile) == name if name is not None else profile.name == _DEFAULT:
            return profile
    whose = f" of backend '{own.name}'" if own else ""
    asked = f"profile '{name}'" if name is not None else "default profile"
    listed = ", ".join(map(str, allowed)) or "none, since the configuration has no profile of this backend"
    raise InvalidJob(f"profile: there is no {asked}{whose}. Allowed: {listed}.")


def placement_of(profile: Profile | None) -> tuple[dict[str, Any], str | None]:
    """Queue, pool, priority and executor that the profile's `airflow:` key asks for.

    An executor that Airflow does not have would be an import error of the whole file: the step says it instead.

    :return: arguments of the operator, and why the step must not run, if it must not
    """
    if profile is None:
        return {}, None
    placement = profile.config.airflow.model_dump(exclude_none=True)
    executor = placement.get("executor")
    if executor is None or _is_configured(executor):
        return placement, None
    del placement["executor"]
    return placement, (
        f"Execution profile '{profile}' asks for Airflow's executor '{executor}', which [core] executor does not list."
    )


def _is_configured(executor: str) -> bool:
    from airflow.executors.executor_loader import ExecutorLoader, UnknownExecutorException

    try:
        ExecutorLoader.lookup_executor_name_by_str(executor)
    except UnknownExecutorException:
        return False
    return True
