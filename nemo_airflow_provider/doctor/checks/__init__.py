"""Judgements: each a function from what is known of an installation to what is to be said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from nemo_airflow_provider.doctor.checks import access, parts, profiles, settings, store
from nemo_airflow_provider.doctor.facts import Database, Installation
from nemo_airflow_provider.doctor.findings import Finding, error

Check = Callable[[Installation], Iterator[Finding]]


def _with_database(check: Callable[[Installation, Database], Iterator[Finding]]) -> Check:
    """A check that has nothing to say while the database is away."""

    @wraps(check)
    def checked(installation: Installation) -> Iterator[Finding]:
        if isinstance(installation.database, Database):
            yield from check(installation, installation.database)

    return checked


#: In the order they are told.
CHECKS: tuple[Check, ...] = (
    store.database,
    parts.plugin,
    parts.bundle,
    _with_database(parts.processes),
    _with_database(parts.dag_file),
    _with_database(parts.paused),
    store.storage,
    access.workspaces,
    access.users,
    settings.recommended,
    settings.options,
    settings.task_url,
    profiles.config_file,
    profiles.backends,
    profiles.engines,
    profiles.hosts,
    profiles.trust,
    profiles.executors,
    _with_database(profiles.pools),
    _with_database(store.shapes),
    _with_database(store.runs),
)


def examine(installation: Installation) -> list[Finding]:
    """What all checks find; one that fails itself is an error of its own, and the others go on."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(installation))
        except Exception as problem:
            findings.append(
                error(
                    check.__name__,
                    f"This could not be checked: {type(problem).__name__}: {problem}",
                    "Please report it.",
                )
            )
    return findings
