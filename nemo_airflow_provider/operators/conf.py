"""A run's conf → the step to run, validated again: the jobs API is not the only door to a shape's DAG."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nemo_airflow_provider import settings
from nemo_airflow_provider.backends.base import Backend, BackendConfig
from nemo_airflow_provider.backends.registry import create_backend
from nemo_airflow_provider.errors import BackendError, InvalidJob
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.record import generation_of
from nemo_airflow_provider.model.spec import JobSpec, StepSpec
from nemo_airflow_provider.profiles import load_profiles
from nemo_airflow_provider.runner import StepTask

if TYPE_CHECKING:
    from airflow.sdk import Context


def job_of_conf(dag_id: str, run_id: str, conf: object) -> JobSpec:
    """The job a run carries.

    :raises InvalidJob: run id or conf is no job, or not a job of this DAG's shape
    """
    if names.job_name_of(run_id) is None:
        raise InvalidJob(f"Run id '{run_id}' is not a job name: submit jobs with `nemo jobs create` or the jobs API.")
    if (flaw := flaw_in(conf)) is not None:
        raise InvalidJob(f"The run's conf is not a valid job: {flaw}")
    try:
        job = JobSpec.model_validate(conf or {})
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)
        )
        raise InvalidJob(f"The run's conf is not a valid job: {problems}") from None
    workspace = names.workspace_of_dag(dag_id) or ""
    if names.shape_dag_id(workspace, job.platform_spec.shape()) != dag_id:
        raise InvalidJob("The run's conf does not describe the steps of this DAG: its names or profiles differ.")
    return job


def step_task_of(context: Context, profile: str, refusal: str | None = None) -> StepTask:
    """What the runner is told of this task instance.

    :param profile: `provider/name`
    :param refusal: why the step must fail, if its DAG says so
    :raises InvalidJob: see `job_of_conf`
    """
    run, instance = context["dag_run"], context["ti"]
    job = job_of_conf(run.dag_id, run.run_id, run.conf)
    name = names.step_name_of(instance.task_id)
    index = [step.name for step in job.platform_spec.steps].index(name)
    step = job.platform_spec.steps[index]
    return StepTask(
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_after=run.run_after,
        clear_number=run.clear_number,
        generation=generation_of(instance.max_tries),
        job=job,
        step=step,
        index=index,
        user=run.triggering_user_name,
        base_url=settings.task_base_url(),
        storage=settings.storage(),
        task_log_max_lines=settings.task_log_max_lines(),
        open_backend=lambda: _open_backend(profile),
        refusal=refusal or _refusal(job, step),
    )


def _refusal(job: JobSpec, step: StepSpec) -> str | None:
    """What the jobs API refuses at creation and a run made by hand can ask for all the same."""
    if any(item.from_secret for item in step.environment or []):
        return f"Step '{step.name}' refers to secrets, which this installation does not resolve: give values instead."
    if job.output_location is not None:
        return f"fileset '{job.output_location}' not found: this installation has no filesets."
    return None


def _open_backend(profile: str) -> tuple[Backend, BackendConfig]:
    """Resolve `provider/name` at the moment the step runs.

    :raises ConfigError: the configuration is broken
    :raises BackendError: the profile is gone since the job was created
    """
    provider, _, name = profile.partition("/")
    found = load_profiles(settings.config_file(), environ=os.environ, docker_answers=None).resolve(provider, name)
    if found is None:
        raise BackendError(f"No backend found for provider '{provider}' and profile '{name}'")
    return create_backend(found), found.config
