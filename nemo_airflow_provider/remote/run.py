"""One try of a task that runs a job elsewhere: submit or adopt, follow to the end, obey SIGTERM.

One job a generation: the record says `submitting` before the server is asked, with the job's name and mark; a try
that finds the name taken adopts the job if it carries the mark. The record also says how far the log was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from nemo_airflow_provider.client.errors import ApiError, ClientError
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.moments import moment_of
from nemo_airflow_provider.client.transport import Transport
from nemo_airflow_provider.client.watch import FINAL_STATUSES
from nemo_airflow_provider.remote.adoption import is_ours, marked
from nemo_airflow_provider.remote.calls import Calls, Interrupted, cut_when_terminated, interruptible_sleep
from nemo_airflow_provider.remote.follow import Follower
from nemo_airflow_provider.remote.memory import Memory
from nemo_airflow_provider.remote.record import RemoteRecord
from nemo_airflow_provider.remote.results import fetch_results
from nemo_airflow_provider.remote.task import RemoteTask
from nemo_airflow_provider.remote.trouble import RemoteTrouble, is_no_jobs_api
from nemo_airflow_provider.runner import StepFailed, StepHost, StepLeft
from nemo_airflow_provider.runner.task import ENDED_BY_PERSON

#: Airflow kills a process 5 s after SIGTERM; the cancel has to be there within this.
_LAST_SECONDS = 3.5
_REFUSALS = (400, 404, 409, 413, 422)


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """A job that completed.

    :param results: see `fetch_results`
    """

    id: str
    name: str
    workspace: str
    status: str
    results: list[dict[str, Any]]


class RemoteRun:
    """See the module.

    :param host: state store, task log and SIGTERM of this try
    """

    def __init__(self, task: RemoteTask, host: StepHost, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._host = host
        self._memory = Memory(host, clock)
        self._call = Calls(host, task.outage_seconds, task.server.explain, clock)
        self._clock = clock

    def run(self) -> RemoteResult:
        """Run the job to its end, or go on with what an earlier try began.

        :raises StepFailed: the job is over and did not complete, or cannot be run; do not try again
        :raises StepLeft: this worker must go; the job runs on
        :raises RemoteTrouble: the server cannot be used; another try goes on
        :raises InvalidJob: job or name are none
        :raises Superseded: another try has taken over
        """
        terminated = self._host.terminated
        try:
            client = self._task.server.open_client(
                interruptible_sleep(terminated), lambda login: cut_when_terminated(login, terminated)
            )
            with client, cut_when_terminated(client, terminated):
                return self._run(client)
        except Interrupted:
            self._leave()
        except ClientError as error:
            raise RemoteTrouble(self._task.server.explain(error)) from error

    def cancel_now(self) -> bool:
        """Ask for the job's end, in the seconds that are left; whether the server has heard it."""
        record = self._memory.known
        if record is None or not self._task.cancel_on_kill:
            return False
        deadline = time.monotonic() + _LAST_SECONDS

        def in_time(connection: Transport | JobsClient) -> AbstractContextManager[None]:
            return connection.within(deadline - time.monotonic())

        try:
            with self._task.server.open_client(time.sleep, in_time) as client, in_time(client):
                if record.state == "submitted" or is_ours(self._find(client, record), record.mark):
                    client.cancel_job(record.name, workspace=record.workspace)
                    self._host.note(f"Job '{record.name}' was asked to cancel.")
        except ClientError as error:
            if not (isinstance(error, ApiError) and error.status == 404):
                self._host.note(f"Job '{record.name}' could not be cancelled: {self._task.server.explain(error)}")
                return False
        return True

    def _run(self, client: JobsClient) -> RemoteResult:
        task = self._task
        former = self._memory.former(task.caller)
        if former is not None:
            self._end_former(client, former)
        self._memory.claim(task.caller, task.name, task.server.workspace)
        if self._memory.record.state == "submitting":
            self._submit(client)
        else:
            self._host.note(f"Going on with job '{self._memory.record.name}' ({self._memory.record.id}).")
        record = self._memory.record
        status = Follower(task, client, self._host, self._memory, self._call, self._clock).follow()
        if status["status"] != "completed":
            raise StepFailed(f"Job '{record.name}' ended as {status['status']}: {message_of(status)}")
        results = fetch_results(client, self._call, task, record)
        if self._host.terminated.is_set():
            raise Interrupted  # after SIGTERM a task never ends as success: the next try reads the end again
        return RemoteResult(record.id or "", record.name, record.workspace, status["status"], results)

    def _submit(self, client: JobsClient) -> None:
        record, server = self._memory.record, self._task.server
        body = marked(self._task.job, record.name, self._task.caller, record.mark)
        try:
            job = self._call(lambda: client.create_job(body, workspace=record.workspace))
            done, moment = "Submitted", datetime.now(UTC)
        except ApiError as error:
            if error.status not in _REFUSALS or is_no_jobs_api(error):
                raise
            if error.status != 409:
                raise StepFailed(f"{server.url} refuses the job: {error.text}") from error
            job = self._adopt(client, error.text)
            done, moment = "Adopted", moment_of(job.get("created_at"))
        self._memory.submitted(job, moment.isoformat())
        self._host.note(f"{done} job '{record.name}' ({job.get('id')}) in workspace '{record.workspace}', {server.url}")

    def _adopt(self, client: JobsClient, refusal: str) -> dict[str, Any]:
        """The job that has our name already, if an earlier try made it."""
        record = self._memory.record
        try:
            job = self._call(lambda: self._find(client, record))
        except ApiError as error:
            if error.status != 404:
                raise
            raise StepFailed(
                f"{refusal} Yet there is no such job: the server kept the name of one that it failed to create. "
                "Clear the task, or give another `name`."
            ) from error
        if not is_ours(job, record.mark):
            raise StepFailed(f"{refusal} That job ({job.get('id')}) is not this task's, so it is left alone.")
        return job

    @staticmethod
    def _find(client: JobsClient, record: RemoteRecord) -> dict[str, Any]:
        return client.get_job(record.name, workspace=record.workspace)

    def _end_former(self, client: JobsClient, former: RemoteRecord) -> None:
        """The task was cleared: what its last generation left running must not go on beside the new job."""
        try:
            job = self._call(lambda: self._find(client, former))
            if job.get("status") in FINAL_STATUSES or not is_ours(job, former.mark):
                return
            if not self._task.cancel_on_kill:
                self._host.note(
                    f"Job '{former.name}' of the task before it was cleared goes on (cancel_on_kill=False)."
                )
                return
            self._call(lambda: client.cancel_job(former.name, workspace=former.workspace))
            self._host.note(f"Job '{former.name}' of the task before it was cleared was asked to cancel.")
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _leave(self) -> NoReturn:
        """SIGTERM came: find out why, then cancel the job or leave it.

        :raises StepFailed: a person ended the task
        :raises StepLeft: this worker must go
        """
        record = self._memory.known
        job = f"Job '{record.name}'" if record else "No job"
        if self._host.task_state() not in ENDED_BY_PERSON:
            raise StepLeft(f"this worker is going away; {job} runs on and the next try goes on with it")
        done = "was cancelled" if self.cancel_now() else "may go on: it was not cancelled"
        raise StepFailed(f"The task was ended by a person. {job} {done}.")


def message_of(status: dict[str, Any]) -> str:
    """Why a job ended as it did, in the server's words."""
    for key in ("error_details", "status_details"):
        details = status.get(key)
        if isinstance(details, dict) and details.get("message"):
            return str(details["message"])
    return "the server gives no reason"
