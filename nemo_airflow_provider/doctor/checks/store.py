"""What is kept: Airflow's database, the directory of logs and files, shapes and runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

from nemo_airflow_provider.doctor.facts import Database, DatabaseTrouble, Installation
from nemo_airflow_provider.doctor.findings import Finding, error, fine, warning

#: From this part of `[nemo] max_shapes` on there is a warning.
_NEARLY = 0.8


def database(installation: Installation) -> Iterator[Finding]:
    """Whether Airflow's database answers, and which kind it is."""
    if isinstance(installation.database, DatabaseTrouble):
        trouble = installation.database
        yield error("database", f"{trouble.message} What is in it was not checked.", trouble.remedy)
    if installation.dialect == "sqlite":
        yield warning(
            "database",
            "It is SQLite, which takes one writer at a time: for trying things alone.",
            "Set [database] sql_alchemy_conn to a Postgres.",
        )
    elif isinstance(installation.database, Database):
        yield fine("database", f"{installation.dialect} answers.")


def storage(installation: Installation) -> Iterator[Finding]:
    """The directory of job logs and files."""
    path = installation.storage
    if not path.is_absolute():
        yield error("storage", f"[nemo] storage is no absolute path: '{path}'.", "Write it from / on.")
    elif not path.exists():
        yield from _missing(installation)
    elif not path.is_dir():
        yield error("storage", f"'{path}' is no directory.", "Set [nemo] storage to a directory.")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield error(
            "storage",
            f"'{path}' cannot be written by this user ({os.geteuid()}).",
            "Give it to the user that Airflow runs as, and run this check as that user.",
        )
    elif not installation.steps_stay_here and not installation.option("nemo", "storage"):
        yield warning(
            "storage",
            f"It is '{path}' of this host by default, and steps may run on other hosts.",
            "Set [nemo] storage to a directory that workers and API server share.",
        )
    else:
        shared = "" if installation.steps_stay_here else " It has to be the same directory on workers and API server."
        yield fine("storage", f"'{path}' can be written.{shared}")


def _missing(installation: Installation) -> Iterator[Finding]:
    path = installation.storage
    above = next(folder for folder in path.parents if folder.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        yield fine("storage", f"'{path}' is not there yet; the first job makes it.")
    else:
        yield error(
            "storage",
            f"'{path}' is not there, and this user ({os.geteuid()}) may not make it in '{above}'.",
            "Make it, and give it to the user that Airflow runs as.",
        )


def shapes(installation: Installation, found: Database) -> Iterator[Finding]:
    """How many job shapes are stored, of how many."""
    text = installation.option("nemo", "max_shapes")
    most = int(text) if text.strip().isdecimal() else 500
    count = f"{found.shapes} of {most} job shapes ([nemo] max_shapes) are stored"
    remedy = "Raise [nemo] max_shapes, or use fewer different step names and profiles."
    if found.shapes >= most:
        yield error("shapes", f"{count}: jobs of a new shape are refused.", remedy)
    elif found.shapes >= _NEARLY * most:
        yield warning("shapes", f"{count}: jobs of a new shape will soon be refused.", remedy)
    else:
        yield fine("shapes", f"{count}.")


def runs(_installation: Installation, found: Database) -> Iterator[Finding]:
    """Runs that somebody made by hand and that are no jobs."""
    if not found.no_jobs:
        yield fine("runs", f"All of the newest {found.runs_read} runs of our DAGs are jobs.")
        return
    some = found.no_jobs[0] if len(found.no_jobs) == 1 else f"for example {found.no_jobs[0]}"
    yield warning(
        "runs",
        f"{len(found.no_jobs)} of the newest {found.runs_read} runs of our DAGs are no jobs and not shown by the jobs "
        f"API ({some}): their run id or conf is no valid job.",
        "Delete them on Airflow's pages when they have ended, and make jobs with `nemo jobs create`.",
    )
