"""Shapes → DAGs: real tasks with the steps' names, each the profile's own operator, chained in order.

The DAG file calls `define_dags`. It never has an import error: a shape that cannot be built as it should be is
built so that its steps say what is wrong when they run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, Variable, get_parsing_context

from nemo_airflow_provider import settings
from nemo_airflow_provider.dags.chain import add_chain
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.shape import Shape, loads
from nemo_airflow_provider.operators.conf import ConfSource
from nemo_airflow_provider.operators.placement import known_profiles
from nemo_airflow_provider.profiles import ProfileSet
from nemo_airflow_provider.sweep import SWEEP_DAG_ID

log = logging.getLogger(__name__)

#: Out of the way: how many jobs run at once is for pools and queues to say.
MAX_ACTIVE_RUNS = 100_000

ANCHOR_DOC = (
    "Permissions of the workspace are asked of this DAG: who may read it sees the workspace's jobs, who may create "
    "runs of it submits jobs. Do not run it; submit jobs with `nemo jobs create`."
)


def define_dags(namespace: dict[str, Any]) -> None:
    """Put our DAGs into a DAG file's globals: the one asked for when a task runs, all of them otherwise."""
    wanted = get_parsing_context().dag_id
    for dag in _one(wanted) if wanted else _all():
        namespace[f"dag_{len(namespace)}"] = dag


def _one(dag_id: str) -> Iterator[DAG]:
    if dag_id == SWEEP_DAG_ID:
        yield from _sweep(known_profiles())
    workspace = names.workspace_of_dag(dag_id)
    if workspace is None:
        return
    if dag_id == names.anchor_dag_id(workspace):
        yield _anchor(settings.Workspace(workspace))
    elif (text := Variable.get(names.shape_variable(dag_id), default=None)) is not None:
        yield build_dag(loads(dag_id, text), settings.Workspace(workspace), known_profiles())


def _all() -> Iterator[DAG]:
    try:
        workspaces = settings.workspaces()
    except ConfigError:
        log.exception("No DAGs of NeMo jobs: the option is wrong")
        return
    for workspace in workspaces.values():
        yield _anchor(workspace)
    profiles = known_profiles()
    for key in Variable.keys(prefix=names.SHAPE_VARIABLE_PREFIX):
        dag_id = str(key)[len(names.SHAPE_VARIABLE_PREFIX) :]
        owner = workspaces.get(names.workspace_of_dag(dag_id) or "")
        if owner is None:
            continue
        try:
            yield build_dag(loads(dag_id, Variable.get(str(key))), owner, profiles)
        except Exception:
            # One Variable that somebody broke must not take every other job's DAG away.
            log.exception("The shape %s is left out", dag_id)
    yield from _sweep(profiles)


def _sweep(profiles: ProfileSet | None) -> Iterator[DAG]:
    # Imported here: a step's process needs nothing of it.
    from nemo_airflow_provider.dags import sweep

    try:
        yield sweep.sweep_dag(profiles)
    except Exception:
        # Jobs run without it, too.
        log.exception("The DAG %s is left out", SWEEP_DAG_ID)


def _anchor(workspace: settings.Workspace) -> DAG:
    return DAG(
        dag_id=names.anchor_dag_id(workspace.name),
        dag_display_name=f"{workspace.name}: workspace",
        description=f"The NeMo jobs workspace {workspace.name}",
        doc_md=ANCHOR_DOC,
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        access_control=workspace.access_control,
        tags=["nemo", workspace.name],
    )


def build_dag(shape: Shape, workspace: settings.Workspace, profiles: ProfileSet | None) -> DAG:
    """The DAG of one shape.

    :param profiles: None when the configuration is broken; the steps then fail with its message
    """
    dag = DAG(
        dag_id=shape.dag_id,
        dag_display_name=shape.display_name,
        description=f"NeMo jobs of {len(shape.steps)} step(s) in workspace {shape.workspace}",
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        max_active_runs=MAX_ACTIVE_RUNS,
        access_control=workspace.access_control,
        tags=["nemo", shape.workspace],
    )
    add_chain(dag, shape.steps, profiles, lambda _, refusal: ConfSource(refusal))
    return dag
