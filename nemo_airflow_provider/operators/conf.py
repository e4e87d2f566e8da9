"""A run's conf → the step to run, validated again: the jobs API is not the only door to a shape's DAG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.operators.source import Identity, OpenBackend, assemble
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
        raise InvalidJob(f"The run's conf is not a valid job: {problems_of(error)}") from None
    workspace = names.workspace_of_dag(dag_id) or ""
    if names.shape_dag_id(workspace, job.platform_spec.shape()) != dag_id:
        raise InvalidJob("The run's conf does not describe the steps of this DAG: its names or profiles differ.")
    return job


def problems_of(error: ValidationError) -> str:
    """What is wrong with a job, in one line."""
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False))


@dataclass(frozen=True, slots=True)
class ConfSource:
    """The step of the run's conf that the task id names: tasks of a shape's DAG.

    :param refusal: why the step must fail instead of run, if its DAG says so
    """

    refusal: str | None = None

    def step_task(self, context: Context, open_backend: OpenBackend) -> StepTask:
        """See `StepSource`; and see `job_of_conf`."""
        run = context["dag_run"]
        job = job_of_conf(run.dag_id, run.run_id, run.conf)
        name = names.step_name_of(context["ti"].task_id)
        index = [step.name for step in job.platform_spec.steps].index(name)
        identity = Identity(
            names.workspace_of_dag(run.dag_id) or "", names.job_name_of(run.run_id) or run.run_id, run.run_id
        )
        return assemble(context, identity, job, index, open_backend, refusal=self.refusal)
