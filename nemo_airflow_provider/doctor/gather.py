"""From a real Airflow to what is known of it. Nothing here fails: what cannot be found out is a fact, too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from airflow.configuration import conf

from nemo_airflow_provider import settings
from nemo_airflow_provider.doctor import engines
from nemo_airflow_provider.doctor.configfile import FileReport, inspect
from nemo_airflow_provider.doctor.facts import Database, DatabaseTrouble, Engine, Installation, Workspaces
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.executors import class_names, run_here

#: Seconds; libpq waits for minutes for a host that does not answer.
_CONNECT_TIMEOUT = "10"
_NUMBERS: tuple[Callable[[], float], ...] = (
    settings.max_shapes,
    settings.sweep_seconds,
    settings.task_log_max_lines,
    settings.pause_hold_seconds,
)


def installation() -> Installation:
    """This Airflow, as this process finds it."""
    workspaces = _workspaces()
    database, dialect = _database(workspaces)
    file = configured_file()
    return Installation(
        option=option,
        file=file,
        workspaces=workspaces,
        storage=settings.storage(),
        database=database,
        dialect=dialect,
        plugin_problem=_plugin_problem(),
        bad_options=bad_options(workspaces),
        engines=_engines() if file.is_valid else (),
    )


def option(section: str, name: str) -> str:
    """An option of Airflow; empty when it is not set, or Airflow cannot read it."""
    try:
        return str(conf.get(section, name, fallback="") or "")
    except Exception:  # among others of a command or a secrets backend that gives the value
        return ""


def configured_file() -> FileReport:
    """The report on the configuration file that the jobs API reads."""
    path = settings.config_file()
    named_by = "[nemo] config_file" if option("nemo", "config_file") else "NHX_CONFIG_FILE_PATH"
    return inspect(path, named_by, os.environ)


def given_file(path: Path) -> FileReport:
    """The report on a file that somebody names."""
    return inspect(path, None, os.environ)


def has_several_hosts() -> bool:
    """Whether the executor may run steps on other hosts than the scheduler's."""
    return not run_here(class_names(option("core", "executor")))


def _workspaces() -> Workspaces:
    try:
        found = settings.workspaces()
    except ConfigError as error:
        return Workspaces(problem=str(error))
    return Workspaces(
        names=tuple(found),
        restricted=tuple(name for name, workspace in found.items() if workspace.access_control is not None),
    )


def _database(workspaces: Workspaces) -> tuple[Database | DatabaseTrouble, str]:
    os.environ.setdefault("PGCONNECT_TIMEOUT", _CONNECT_TIMEOUT)
    try:
        # Here, since the import makes Airflow's models.
        from nemo_airflow_provider.doctor import database

        return database.read(workspaces.names), database.dialect()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return DatabaseTrouble(f"It could not be read: {reason}", "Look at it: airflow db check"), ""


def _plugin_problem() -> str | None:
    try:
        from airflow.plugins_manager import get_import_errors, get_plugin_info

        from nemo_airflow_provider.api.app import create_app
        from nemo_airflow_provider.plugin import NemoPlugin

        if all(each["name"] != NemoPlugin.name for each in get_plugin_info(["name"])):
            reasons = "; ".join(get_import_errors().values())
            return f"Airflow does not load it{': ' + ' '.join(reasons.split()) if reasons else ''}."
        create_app()
    except Exception as error:
        return f"The jobs API cannot be made: {' '.join(f'{type(error).__name__}: {error}'.split())}."
    return None


def _engines() -> tuple[Engine, ...]:
    try:
        return engines.of(settings.profiles())
    except ConfigError:  # which the report on the file tells
        return ()


def bad_options(workspaces: Workspaces) -> tuple[str, ...]:
    """What is wrong with options of `[nemo]`, beside the workspaces."""
    problems = []
    for read in _NUMBERS:
        try:
            read()
        except ConfigError as error:
            problems.append(str(error))
    if workspaces.problem is None:  # which would be told again
        try:
            settings.secret_grants()
        except ConfigError as error:
            problems.append(f"{error}; until then no job may use a secret of another workspace.")
    return tuple(problems)
