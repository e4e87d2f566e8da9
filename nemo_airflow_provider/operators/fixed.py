"""The steps of a job that was fixed when its DAG file was read: tasks of `job_dag`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nemo_airflow_provider.model import authored, names
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.operators.source import Identity, OpenBackend, assemble
from nemo_airflow_provider.runner import StepTask

if TYPE_CHECKING:
    from airflow.sdk import Context


def authored_identity(context: Context, workspace: str) -> Identity:
    """What the run of a DAG that a person wrote is called."""
    run = context["dag_run"]
    name = authored.job_name(run.dag_id, run.run_id)
    return Identity(workspace, name, names.run_id_of(name))


@dataclass(frozen=True, slots=True)
class FixedSource:
    """One step of the job.

    :param index: of the step in the job
    :param refusal: why the step must fail instead of run, if its DAG says so
    """

    workspace: str
    job: JobSpec
    index: int
    refusal: str | None = None

    def step_task(self, context: Context, open_backend: OpenBackend) -> StepTask:
        """See `StepSource`."""
        identity = authored_identity(context, self.workspace)
        return assemble(context, identity, self.job, self.index, open_backend, refusal=self.refusal)
