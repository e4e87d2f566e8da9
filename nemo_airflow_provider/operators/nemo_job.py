"""An operator that runs a job on another jobs API. It holds wiring only; `remote` runs the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions._internal.contextmanager import DagContext
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from nemo_airflow_provider import settings
from nemo_airflow_provider.documents.mapping import NoMapping, load
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.hooks.nemo_jobs import NemoJobsHook
from nemo_airflow_provider.model.jsonable import NotJson, jsonable
from nemo_airflow_provider.operators.parameters import Later, check_value
from nemo_airflow_provider.operators.watching import WatchingOperator, ends_told_to_airflow, faults_told_of
from nemo_airflow_provider.remote.naming import Caller
from nemo_airflow_provider.remote.run import RemoteRun
from nemo_airflow_provider.remote.task import RemoteTask, Server
from nemo_airflow_provider.remote.trouble import RemoteTrouble
from nemo_airflow_provider.runner import StepFailed

if TYPE_CHECKING:
    from airflow.sdk import Context


class NemoJobOperator(WatchingOperator):
    """Runs a job on an upstream server or on another Airflow with this package, with its log in the task log.

    The job is made once: a try that follows a killed one goes on with the job and with its log. Clearing the task
    makes a new job. A job that fails fails the task without retries, which are for a server that cannot be reached.
    Returns `{id, name, workspace, status, results}`.

    :param job: body of the create request (`platform_spec` at least), or the path of a YAML or JSON file with one,
        absolute or next to the DAG's file; templated, in the file too
    :param name: the job's name, templated; a task that is cleared adds `-2`, `-3` …; default: made from DAG, task and
        run
    :param workspace: templated; default: that of the connection
    :param nemo_jobs_conn_id: connection of type `nemo_jobs`
    :param poll_interval: seconds between two looks; default: from 0.3 while things happen to 3 when not
    :param timeout: after which the job is cancelled and the task fails, counted from the job's creation; a number is
        of seconds
    :param outage_timeout: seconds for which the server may be in trouble before the try fails
    :param cancel_on_kill: whether the job ends when somebody marks or clears the task
    :param results: names of JSON results whose content is returned
    :param max_result_bytes: of each
    :param max_log_lines: first and last lines of the log that are copied; default: `[nemo] task_log_max_lines`
    :raises InvalidTask: `job` or `max_log_lines` cannot be right; the text names DAG, task and parameter
    """

    template_fields: Sequence[str] = ("job", "name", "workspace")

    def __init__(
        self,
        *,
        job: Mapping[str, Any] | str,
        name: str | None = None,
        workspace: str | None = None,
        nemo_jobs_conn_id: str = NemoJobsHook.default_conn_name,
        poll_interval: float | None = None,
        timeout: float | timedelta | None = None,
        outage_timeout: float = 600.0,
        cancel_on_kill: bool = True,
        results: Sequence[str] = (),
        max_result_bytes: int = 48 * 1024,
        max_log_lines: int | None = None,
        **kwargs: Any,
    ) -> None:
        _check(kwargs.get("dag"), kwargs["task_id"], job, max_log_lines)
        super().__init__(**kwargs)
        self.job = job
        self.name = name
        self.workspace = workspace
        self.nemo_jobs_conn_id = nemo_jobs_conn_id
        self.poll_interval = poll_interval
        self.timeout = timeout
        self.outage_timeout = outage_timeout
        self.cancel_on_kill = cancel_on_kill
        self.results = results
        self.max_result_bytes = max_result_bytes
        self.max_log_lines = max_log_lines

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """As of every operator; what is wrong is an import error here too."""
        dag = kwargs.get("dag") or DagContext.get_current()
        _check(dag, kwargs["task_id"], kwargs.get("job", Later()), kwargs.get("max_log_lines"))
        return super().partial(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the job; see `remote.run.RemoteRun`."""
        host, run = self.make_host(context), None
        with ends_told_to_airflow(self.log, "task"):
            try:
                run = RemoteRun(self._task(context), host)
                return asdict(run.run())
            except (StepFailed, InvalidJob) as error:
                self.log.error("%s", error)
                raise
            except RemoteTrouble as error:
                self.log.error("%s", error)
                raise AirflowException(str(error)) from None
            except AirflowTaskTimeout:
                if run is not None:
                    run.cancel_now()
                raise

    def _task(self, context: Context) -> RemoteTask:
        instance, hook = context["ti"], NemoJobsHook(self.nemo_jobs_conn_id)
        job = self._job(context)
        timeout = self.timeout.total_seconds() if isinstance(self.timeout, timedelta) else self.timeout
        limit = self.max_log_lines
        return RemoteTask(
            caller=Caller(
                instance.dag_id,
                instance.run_id,
                instance.task_id,
                instance.map_index,
                # Grows when the task is cleared, and with nothing else.
                generation=instance.max_tries,
            ),
            server=Server(
                connection=self.nemo_jobs_conn_id,
                url=hook.display_url,
                workspace=self.workspace or hook.workspace,
                open_client=hook.open_client,
            ),
            job=job,
            name=self.name or job.get("name"),
            poll_interval_seconds=self.poll_interval,
            timeout_seconds=timeout,
            outage_seconds=self.outage_timeout,
            cancel_on_kill=self.cancel_on_kill,
            results=self.results,
            max_result_bytes=self.max_result_bytes,
            max_log_lines=settings.task_log_max_lines() if limit is None else limit,
        )

    def _job(self, context: Context) -> dict[str, Any]:
        """The create body, out of its file if it is in one.

        :raises InvalidJob: there is no such file, or no job in it
        """
        job: Any = self.job
        if isinstance(job, str):
            job = self.render_template(_loaded(Path(self.dag.fileloc).parent / job), context)
        if not isinstance(job, Mapping):
            raise InvalidJob("The job must be an object, the body of a create request.")
        return dict(job)


def _check(dag: Any, task_id: str, job: object, max_log_lines: object) -> None:
    """Find what is wrong with parameters, as far as they are known.

    :raises InvalidTask: naming DAG, task, parameter and what is allowed
    """
    with faults_told_of(dag, task_id):
        check_value("job", job, _body)
        if max_log_lines is not None and (type(max_log_lines) is not int or max_log_lines < 0):
            raise InvalidJob(f"max_log_lines: {max_log_lines!r} is no whole number from 0 on.")


def _body(job: object) -> object:
    """What is sent of a job, or the path of its file."""
    if isinstance(job, str):
        return job
    if not isinstance(job, Mapping):
        raise InvalidJob(
            f"job: a {type(job).__name__} is neither the body of a job nor the path, as text, of a file that holds one."
        )
    try:
        return jsonable(dict(job))
    except NotJson as error:
        raise InvalidJob(f"job: {error}") from None


def _loaded(path: Path) -> dict[str, Any]:
    try:
        return load(path)
    except NoMapping as error:
        raise InvalidJob(f"The job file {path} {error}") from None
