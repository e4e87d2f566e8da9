"""The parts of Airflow that jobs need: the plugin, our DAG file, the processes that have to run."""

from __future__ import annotations

import json
from collections.abc import Iterator

from nemo_airflow_provider.doctor.facts import Database, Installation
from nemo_airflow_provider.doctor.findings import Finding, error, fine, warning
from nemo_airflow_provider.model import names
from nemo_airflow_provider.sweep import SWEEP_DAG_ID

_BUNDLE = "nemo_airflow_provider.dags.bundle.JobsDagBundle"
_ENTRY = f'{{"name": "nemo-jobs", "classpath": "{_BUNDLE}", "kwargs": {{}}}}'


def plugin(installation: Installation) -> Iterator[Finding]:
    """Whether Airflow's API server gets the jobs API."""
    if installation.plugin_problem is None:
        yield fine("plugin", "Airflow loads it, so its API server has /apis/jobs.")
    else:
        yield error(
            "plugin",
            installation.plugin_problem,
            "Install nemo-airflow-provider where the API server runs, and restart it.",
        )


def bundle(installation: Installation) -> Iterator[Finding]:
    """Whether the dag-processor is told of our DAG file."""
    text = installation.option("dag_processor", "dag_bundle_config_list")
    try:
        listed = json.loads(text or "[]")
    except ValueError as problem:
        yield error("bundle", f"[dag_processor] dag_bundle_config_list is not JSON: {problem}.", "Correct it.")
        return
    classes = [item.get("classpath") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    if _BUNDLE in classes:
        yield fine("bundle", "[dag_processor] dag_bundle_config_list names it.")
    elif not _is_parsed(installation.database):
        yield error(
            "bundle",
            "[dag_processor] dag_bundle_config_list does not name the bundle with our DAG file, and Airflow does not "
            "know its DAGs.",
            f"Add {_ENTRY} to the list, beside the bundle of your DAG folder.",
        )
    else:
        yield fine("bundle", "Not named, but Airflow knows our DAGs, so a file in a DAG folder defines them.")


def _is_parsed(database: object) -> bool:
    return isinstance(database, Database) and any(
        anchor.known and not anchor.stale for anchor in database.anchors.values()
    )


def processes(_installation: Installation, found: Database) -> Iterator[Finding]:
    """Whether the parts run without which no job starts."""
    for part, number in found.alive.items():
        if number:
            yield fine(part, "Runs.")
        else:
            yield error(part, "None has reported itself lately.", f"Start it: airflow {part}")


def dag_file(_installation: Installation, found: Database) -> Iterator[Finding]:
    """Whether Airflow knows the DAGs of our file."""
    if found.import_error is not None:
        yield error(
            "dag file",
            f"It cannot be imported: {found.import_error}",
            "Look at the import errors on Airflow's page of DAGs; workers and dag-processor need the same version of "
            "nemo-airflow-provider.",
        )
    for workspace, anchor in found.anchors.items():
        dag_id = names.anchor_dag_id(workspace)
        if not anchor.known or anchor.stale:
            yield error(
                "dag file",
                f"Airflow does not know the DAG {dag_id}: no jobs can be made in workspace '{workspace}'.",
                "Start the dag-processor with the bundle of our DAG file and the same [nemo] workspaces, and wait for "
                "its next look.",
            )
        else:
            yield fine("dag file", f"Airflow knows {dag_id}.")


def paused(_installation: Installation, found: Database) -> Iterator[Finding]:
    """DAGs that somebody paused: of job shapes, whose jobs are made and never start, and the sweep's."""
    shapes = [dag_id for dag_id in found.paused if dag_id != SWEEP_DAG_ID]
    if shapes:
        first, more = shapes[0], len(shapes) - 1
        others = f" and {more} more" if more else ""
        yield _paused(f"{first}{others}", "its jobs do not start", first)
    if SWEEP_DAG_ID in found.paused:
        yield _paused(
            SWEEP_DAG_ID, "what jobs leave behind stays, and workloads that nobody watches go on", SWEEP_DAG_ID
        )


def _paused(which: str, what: str, dag_id: str) -> Finding:
    return warning("paused", f"The DAG {which} is paused: {what}.", f"Unpause it: airflow dags unpause {dag_id}")
