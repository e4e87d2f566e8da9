"""The step of a task of an ordinary DAG, out of its operator's parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nemo_airflow_provider.model import authored
from nemo_airflow_provider.model.spec import JobSpec, StepSpec
from nemo_airflow_provider.operators.fixed import authored_identity
from nemo_airflow_provider.operators.parameters import StepParameters
from nemo_airflow_provider.operators.placement import known_profiles
from nemo_airflow_provider.operators.source import OpenBackend, assemble
from nemo_airflow_provider.runner import Repeats, StepTask

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class ParameterSource:
    """The step of a task of an ordinary DAG; its templates are rendered.

    :param profile: `provider/name`
    """

    workspace: str
    profile: str
    parameters: StepParameters
    repeats: Repeats

    def step_task(self, context: Context, open_backend: OpenBackend) -> StepTask:
        """See `StepSource`."""
        instance = context["ti"]
        map_index = -1 if instance.map_index is None else instance.map_index
        name = authored.step_name(instance.task_id, map_index)
        provider, _, profile = self.profile.partition("/")
        job = _job_of(self.parameters.step(name, provider, profile), instance.dag_id)
        if (profiles := known_profiles()) is not None:
            platform_spec, _ = profiles.translate(job.platform_spec)
            profiles.check(platform_spec)
            job = job.model_copy(update={"platform_spec": platform_spec})
        identity = authored_identity(context, self.workspace)
        task = assemble(context, identity, job, 0, open_backend, stream=authored.stream_number(name))
        return replace(task, listed=False, repeats=self.repeats, result_file=self.parameters.result_file)


def _job_of(step: StepSpec, dag_id: str) -> JobSpec:
    """The job of one step that a task of an ordinary DAG is to its runner."""
    return JobSpec.model_validate(
        {"source": f"dag:{dag_id}", "spec": {}, "platform_spec": {"steps": [step.model_dump(mode="json")]}}
    )
