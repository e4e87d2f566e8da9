"""`job_dag`: a job as the jobs API takes it, made a DAG of its own, with a schedule if its author likes.

Its runs are jobs of a workspace: the jobs API lists, shows, cancels and deletes them, and makes none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from pydantic import ValidationError

from nemo_airflow_provider import settings
from nemo_airflow_provider.dags.chain import add_chain
from nemo_airflow_provider.documents.mapping import NoMapping, load
from nemo_airflow_provider.errors import ConfigError, InvalidJob
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.authored import DOCUMENT_KEY, JobDocument, workspace_tag
from nemo_airflow_provider.model.jsonable import NotJson, jsonable
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.spec import JobRequest
from nemo_airflow_provider.operators.conf import problems_of
from nemo_airflow_provider.operators.fixed import FixedSource
from nemo_airflow_provider.operators.placement import check_workspace, known_profiles
from nemo_airflow_provider.profiles.admission import admitted, conf_of


def job_dag(
    dag_id: str,
    job: Mapping[str, Any] | str | Path,
    *,
    schedule: Any = None,
    workspace: str = "default",
    **dag_kwargs: Any,
) -> DAG:
    """A DAG whose every run is one job: its steps as tasks, one after the other.

    Nothing in the job is a template: it runs as it does when it is given to the jobs API.

    :param dag_id: of the DAG; the jobs are called like it, with 8 hex digits for each run
    :param job: the body of a job without a name, or a YAML or JSON file that holds it; a relative path begins at the
        folder of the DAG file
    :param schedule: as of every DAG
    :param workspace: whose jobs the runs are
    :param dag_kwargs: any other argument of a DAG
    :raises InvalidJob: it cannot run as written; the text names the DAG
    """
    # Where the author's file is, not ours.
    folder = Path(sys._getframe(1).f_globals.get("__file__", "")).parent
    try:
        return _made(dag_id, _body(job, folder), workspace, {"schedule": schedule, **dag_kwargs})
    except InvalidJob as error:
        raise InvalidJob(f"DAG '{dag_id}': {error}") from None


def _made(dag_id: str, body: dict[str, Any], workspace: str, dag_kwargs: dict[str, Any]) -> DAG:
    if not isinstance(dag_id, str):
        raise InvalidJob(f"dag_id: {dag_id!r} is no text.")
    if dag_id.lower().startswith(names.DAG_PREFIX):
        raise InvalidJob(f"ids that begin with '{names.DAG_PREFIX}' are those of jobs made by the jobs API.")
    check_workspace(workspace)
    profiles = known_profiles()
    spec, warnings = admitted(profiles, _request(body), body)
    document = JobDocument(workspace, conf_of(spec, warnings))
    own = {"description": spec.description, "access_control": _access_control(workspace)}
    given = {
        **own,
        **dag_kwargs,
        # Stored with each version of the DAG, so that a run can be shown before it begins and after an edit.
        "default_args": {**(dag_kwargs.get("default_args") or {}), DOCUMENT_KEY: document.dumps()},
        "tags": {*(dag_kwargs.get("tags") or ()), "nemo", workspace_tag(workspace)},
    }
    dag = DAG(dag_id=dag_id, **given)
    with dag:  # so that Airflow finds it also where its author keeps no name for it
        add_chain(
            dag,
            spec.platform_spec.shape(),
            profiles,
            lambda index, refusal: FixedSource(workspace, spec, index, refusal),
        )
    return dag


def _access_control(workspace: str) -> dict[str, Any] | None:
    try:
        known = settings.workspaces().get(workspace)
    except ConfigError:
        return None
    return known.access_control if known else None


def _body(job: Mapping[str, Any] | str | Path, folder: Path) -> dict[str, Any]:
    if isinstance(job, Mapping):
        try:
            return dict(jsonable(job))
        except NotJson as error:
            raise InvalidJob(f"the job cannot be stored: {error}") from None
    if not isinstance(job, str | Path):
        raise InvalidJob(
            f"job: a {type(job).__name__} is neither the body of a job nor the path of a file that holds one."
        )
    path = folder / job
    try:
        return load(path)
    except NoMapping as error:
        raise InvalidJob(f"the job file {path} {error}") from None


def _request(body: dict[str, Any]) -> JobRequest:
    if body.get("name") is not None:
        raise InvalidJob("the job has a name; leave it out: each run is named after the DAG and the run.")
    if (flaw := flaw_in(body)) is not None:
        raise InvalidJob(f"the job cannot be stored: {flaw}")
    try:
        return JobRequest.model_validate(body)
    except ValidationError as error:
        raise InvalidJob(f"the job is not valid: {problems_of(error)}") from None
