"""Where a task finds the step it runs: a `StepSource`, and what all kinds of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from nemo_airflow_provider import settings
from nemo_airflow_provider.backends.base import Backend, BackendConfig
from nemo_airflow_provider.backends.registry import create_backend
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.site import site_of
from nemo_airflow_provider.model.record import generation_of
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.operators.options import StepOptions
from nemo_airflow_provider.runner import StepTask

if TYPE_CHECKING:
    from airflow.sdk import Context

#: What makes a backend, and the configuration it was made from, when the step runs.
OpenBackend = Callable[[], tuple[Backend, BackendConfig]]


class StepSource(Protocol):
    """Tells a task which step it runs."""

    def step_task(self, context: Context, open_backend: OpenBackend) -> StepTask:
        """What the runner is told of this task instance.

        :raises InvalidJob: there is no such step
        """


@dataclass(frozen=True, slots=True)
class Identity:
    """What the run of a step is to the jobs API; see `StepTask`."""

    workspace: str
    job_name: str
    workload_run_id: str


def assemble(
    context: Context,
    identity: Identity,
    job: JobSpec,
    index: int,
    open_backend: OpenBackend,
    *,
    refusal: str | None = None,
    stream: int | None = None,
) -> StepTask:
    """A step of a job, in the run and the try that a context describes.

    :param index: of the step in the job
    :param refusal: why the step must fail instead of run, if it must
    :param stream: see `StepTask.index`; None: the index
    """
    run, instance = context["dag_run"], context["ti"]
    step, options = job.platform_spec.steps[index], StepOptions.read()
    return StepTask(
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_after=run.run_after,
        workspace=identity.workspace,
        job_name=identity.job_name,
        workload_run_id=identity.workload_run_id,
        clear_number=run.clear_number,
        generation=generation_of(instance.max_tries, context["task"].retries),
        job=job,
        step=step,
        index=index if stream is None else stream,
        user=run.triggering_user_name,
        base_url=settings.task_base_url(),
        storage=settings.storage(),
        task_log_max_lines=options.task_log_max_lines,
        open_backend=open_backend,
        may_use=lambda secret: settings.may_use(identity.workspace, secret),
        refusal=refusal or options.fault or refusal_of(job),
    )


def refusal_of(job: JobSpec) -> str | None:
    """What the jobs API refuses at creation and a run made by hand can ask for all the same."""
    if job.output_location is not None:
        return f"fileset '{job.output_location}' not found: this installation has no filesets."
    return None


def open_profile(profile: str, time_limit: timedelta | None = None) -> tuple[Backend, BackendConfig]:
    """Resolve `provider/name` at the moment the step runs.

    :param time_limit: of the workload, where the profile's `ttl_seconds_active` is not shorter
    :raises ConfigError: the configuration is broken
    :raises BackendError: the profile is gone since the job was created
    """
    provider, _, name = profile.partition("/")
    profiles = settings.profiles()
    found = profiles.resolve(provider, name)
    if found is None:
        raise BackendError(f"No backend found for provider '{provider}' and profile '{name}'")
    if time_limit is not None:
        seconds = max(1, min(found.config.ttl_seconds_active, round(time_limit.total_seconds())))
        found = replace(found, config=found.config.model_copy(update={"ttl_seconds_active": seconds}))
    return create_backend(found, site_of(profiles)), found.config
