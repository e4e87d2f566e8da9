"""Shapes → DAGs: real tasks with the steps' names, each the profile's own operator, chained in order.

The DAG file calls `define_dags`. It never has an import error: a shape that cannot be built as it should be is
built so that its steps say what is wrong when they run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, Variable, get_parsing_context

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.shape import Shape, loads
from nemo_airflow_provider.operators import step as operators
from nemo_airflow_provider.operators.conf import ConfSource
from nemo_airflow_provider.profiles import Profile, ProfileSet, load_profiles

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
    workspace = names.workspace_of_dag(dag_id)
    if workspace is None:
        return
    if dag_id == names.anchor_dag_id(workspace):
        yield _anchor(settings.Workspace(workspace))
    elif (text := Variable.get(names.shape_variable(dag_id), default=None)) is not None:
        yield build_dag(loads(dag_id, text), settings.Workspace(workspace), _profiles())


def _all() -> Iterator[DAG]:
    try:
        workspaces = settings.workspaces()
    except ConfigError:
        log.exception("No DAGs of NeMo jobs: the option is wrong")
        return
    for workspace in workspaces.values():
        yield _anchor(workspace)
    profiles = _profiles()
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


def _profiles() -> ProfileSet | None:
    try:
        return load_profiles(settings.config_file(), environ=os.environ, docker_answers=None)
    except ConfigError as error:
        log.warning("Steps will fail until the configuration is mended: %s", error)
        return None


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
    previous = None
    for name, provider, profile_name in shape.steps:
        profile = profiles.resolve(provider, profile_name) if profiles else None
        placement, refusal = _placement(profile)
        task = operators.operator_class(profile)(
            task_id=names.task_id_of(name),
            task_display_name=name,
            profile=f"{provider}/{profile_name}",
            source=ConfSource(refusal),
            dag=dag,
            **placement,
        )
        if previous is not None:
            previous >> task
        previous = task
    return dag


def _placement(profile: Profile | None) -> tuple[dict[str, Any], str | None]:
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
