"""Operators that run one step of a job; one class a backend, so that Airflow's pages name what runs.

They hold wiring only: Airflow's context in, `runner.run_step`, Airflow's exceptions out. Tasks of our own DAGs are
given their step by a source; in a DAG that people write, the parameters make it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions._internal.contextmanager import DagContext
from airflow.sdk.exceptions import TaskAwaitingInput

from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.model.record import STEP_RETRIES
from nemo_airflow_provider.operators.host import answer_of
from nemo_airflow_provider.operators.options import StepOptions
from nemo_airflow_provider.operators.ordinary import ParameterSource
from nemo_airflow_provider.operators.parameters import PARAMETERS, Later, StepParameters
from nemo_airflow_provider.operators.placement import Choice, choose
from nemo_airflow_provider.operators.source import StepSource, open_profile
from nemo_airflow_provider.operators.watching import WatchingOperator, ends_told_to_airflow, faults_told_of
from nemo_airflow_provider.profiles import Profile
from nemo_airflow_provider.runner import Answer, Repeats, StepParked, Timing, run_step

if TYPE_CHECKING:
    from airflow.sdk import Context

_RETRY_DELAY = timedelta(seconds=1)
_STEP_RETRY_DELAY = timedelta(seconds=10)


class JobStepOperator(WatchingOperator):
    """Runs one step of a job, on whatever its profile says.

    Parameters with a * may hold templates and outputs of other tasks, and can be mapped.

    :param profile: `provider/name` of the execution profile; without it an operator of one backend takes its default
    :param workspace: the workspace whose secrets the step may use
    :param command: * list of words, or a string: a line for `sh -c`
    :param entrypoint: * list of words before the command; of a container, in place of its image's
    :param image: * of a container; without it the profile's default
    :param environment: * name → text, number or `{"from_secret": "<name>"}`
    :param compute_resources: * of a container: `requests`, `limits`, `num_gpus`, `num_nodes`, `shm_size`
    :param config: * mapping that the step finds as JSON in `$NEMO_JOB_STEP_CONFIG_FILE_PATH`
    :param job_storage: * where a container finds the storage that all steps of the run share
    :param result_file: * path below `$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH` of a file that the step writes; what is in
        it is the task's XCom: `.json` is parsed, anything else is text
    :param step_retries: how often a workload that ends with an exit code other than 0 is started again
    :param step_retry_delay: before the first of these starts; doubles with each, up to five minutes
    :param retries: Airflow's retries, for lost workers: the workload runs on and is adopted, not started again
    :param source: which step it is, where no parameters say so; nothing is a template then
    :raises InvalidTask: a parameter cannot be right; the text names DAG, task, parameter and what is allowed
    """

    template_fields: Sequence[str] = PARAMETERS
    template_fields_renderers = {"compute_resources": "json", "config": "json", "environment": "json"}  # noqa: RUF012
    execution_timeout: timedelta | None

    def __init__(
        self,
        *,
        profile: str | None = None,
        workspace: str = "default",
        command: str | Sequence[str] | None = None,
        entrypoint: Sequence[str] | None = None,
        image: str | None = None,
        environment: Mapping[str, Any] | None = None,
        compute_resources: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        job_storage: str | None = None,
        result_file: str | None = None,
        step_retries: int = 0,
        step_retry_delay: timedelta | float = _STEP_RETRY_DELAY,
        retries: int = STEP_RETRIES,
        retry_delay: timedelta = _RETRY_DELAY,
        source: StepSource | None = None,
        **kwargs: Any,
    ) -> None:
        given = StepParameters(
            command, entrypoint, image, environment, compute_resources, config, job_storage, result_file
        )
        choice = Choice(profile or "")
        if source is None:
            repeats = step_retries, step_retry_delay
            choice = _checked(type(self), kwargs.get("dag"), kwargs["task_id"], profile, workspace, given, repeats)
            given_already = {*kwargs, *kwargs.get("default_args", {})}
            kwargs |= {name: value for name, value in choice.placement.items() if name not in given_already}
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.profile = choice.profile
        self.workspace = workspace
        self.command = command
        self.entrypoint = entrypoint
        self.image = image
        self.environment = environment
        self.compute_resources = compute_resources
        self.config = config
        self.job_storage = job_storage
        self.result_file = result_file
        self.step_retries = step_retries
        self.step_retry_delay = step_retry_delay
        self.source = source
        if source is not None:
            self.template_fields = ()
        # The runner keeps this limit: Airflow's own way would end the watching and leave the workload.
        self.time_limit = self.execution_timeout
        self.execution_timeout = None

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """As of every operator; what is wrong is an import error here too."""
        dag = kwargs.get("dag") or DagContext.get_current()
        given = StepParameters(**{name: kwargs.get(name, Later()) for name in PARAMETERS})
        choice = _checked(
            cls,
            dag,
            kwargs["task_id"],
            kwargs.get("profile"),
            kwargs.get("workspace", "default"),
            given,
            (kwargs.get("step_retries", 0), kwargs.get("step_retry_delay", _STEP_RETRY_DELAY)),
        )
        given_already = {*kwargs, *(dag.default_args if dag else {})}
        placement = {name: value for name, value in choice.placement.items() if name not in given_already}
        return super().partial(**kwargs, **placement)

    def execute(self, context: Context) -> Any:
        """Run the step; see `runner.run_step`.

        :return: what its result file holds
        """
        return self._run(context, None)

    def execute_resumed(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Go on with a step that was parked: its request was answered. As `execute`."""
        return self._run(context, answer_of(event))

    def _run(self, context: Context, answer: Answer | None) -> Any:
        timing = Timing(park=StepOptions.read().pause_hold_seconds)
        host = self.make_host(context)
        with ends_told_to_airflow(self.log, "step"):
            try:
                source = self.source or self._own_source()
                step = source.step_task(context, lambda: open_profile(self.profile, self.time_limit))
                return run_step(step, host, timing, answer)
            except StepParked as error:
                self.log.info("%s", error)
                raise TaskAwaitingInput(method_name="execute_resumed") from None

    def _own_source(self) -> ParameterSource:
        """The step that the parameters make, now that templates are rendered."""
        return ParameterSource(
            self.workspace,
            self.profile,
            StepParameters(**{name: getattr(self, name) for name in PARAMETERS}),
            Repeats.of(self.step_retries, self.step_retry_delay),
        )


def _checked(
    operator: type,
    dag: Any,
    task_id: str,
    profile: str | None,
    workspace: str,
    parameters: StepParameters,
    repeats: tuple[object, object],
) -> Choice:
    """The profile of a step whose parameters were found good, as far as they are known.

    :raises InvalidTask: they are not
    """
    with faults_told_of(dag, task_id):
        choice = choose(operator, profile, workspace, hands_back=parameters.has("result_file"))
        parameters.check(choice.profile.partition("/")[0])
        Repeats.of(*repeats)
        return choice


class SubprocessStepOperator(JobStepOperator):
    """A step that runs as a process on the worker's host."""


class DockerStepOperator(JobStepOperator):
    """A step that runs as a Docker container."""


class KubernetesJobStepOperator(JobStepOperator):
    """A step that runs as a Kubernetes Job."""


class VolcanoJobStepOperator(JobStepOperator):
    """A step that runs as a gang-scheduled Volcano Job."""


def operator_class(profile: Profile | None) -> type[JobStepOperator]:
    """The operator of a profile's backend; the neutral one when the profile is unknown."""
    if profile is None:
        return JobStepOperator
    found = globals()[BACKENDS[profile.backend].operator]
    assert isinstance(found, type) and issubclass(found, JobStepOperator)
    return found
