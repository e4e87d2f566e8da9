"""The endpoints of the jobs API, one method each. Checks an answer's outline, not its every key."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from nemo_airflow_provider.client.errors import BadAnswer
from nemo_airflow_provider.client.pages import following, is_log_page, is_page
from nemo_airflow_provider.client.paths import segment
from nemo_airflow_provider.client.transport import DEFAULT_BASE_URL, DEFAULT_WORKSPACE, JsonObject, Transport

ROOT = "/apis/jobs/v2"


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines of a job are meant.

    :param attempt_id: an attempt's id, its number, or `current`
    :param step_id: the step's name
    :param task_id: the task's name
    """

    attempt_id: str | None = None
    step_id: str | None = None
    task_id: str | None = None


EVERY_LINE = LogFilter()


class JobsClient:
    """Jobs of one server.

    Jobs are named by name or id. Methods take `workspace` to look elsewhere than the client's own.

    :param transport: an open transport to use; `base_url` and `token` are then without effect
    :raises ClientError: every method, see `client.errors`
    """

    def __init__(
        self,
        base_url: str = DEFAULT_BASE_URL,
        *,
        token: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        transport: Transport | None = None,
    ) -> None:
        self.workspace = workspace
        self._transport = transport or Transport(base_url, token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()

    def within(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """A block whose requests end after that, with `TimedOut` if need be; see `Transport.within`."""
        return self._transport.within(seconds)

    def interrupt(self) -> None:
        """Make the request under way fail; see `Transport.interrupt`."""
        self._transport.interrupt()

    # --- jobs -------------------------------------------------------------------------------------

    def list_execution_profiles(self) -> list[JsonObject]:
        """`{provider, profile, backend, config}` of each profile."""
        path = f"{ROOT}/execution-profiles"
        answer = self._transport.request("GET", path)
        if not _is_rows(answer):
            raise self._misfit("GET", path, "a list of profiles")
        rows: list[JsonObject] = answer
        return rows

    def list_gpus(self) -> JsonObject:
        """`{engines: [{profiles, backend, error, devices, waiters}], note}`: who has GPUs, and who waits for them."""
        path = f"{ROOT}/gpus"
        answer = self._transport.request("GET", path)
        if not isinstance(answer, dict) or not _is_rows(answer.get("engines")):
            raise self._misfit("GET", path, "an object with a list of engines")
        for engine in answer["engines"]:
            if not _is_rows(engine.get("devices")) or not _is_rows(engine.get("waiters")):
                raise self._misfit("GET", path, "a list of engines with devices and waiters")
        return answer

    def create_job(self, body: Mapping[str, Any], *, workspace: str | None = None) -> JsonObject:
        """The new job. Never sent twice, unless the server asks for it."""
        return self._entity("POST", self._jobs(workspace), body=dict(body))

    def list_jobs(
        self,
        *,
        workspace: str | None = None,
        filter: JsonObject | str | None = None,
        sort: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> JsonObject:
        """One page: `{data, pagination, sort, filter?}`.

        :param filter: filter object, or a filter in text form
        """
        query = {"page": page, "page_size": page_size, "sort": sort, "filter": _filter_text(filter)}
        return self._page(self._jobs(workspace), query)

    def get_job(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """The job."""
        return self._entity("GET", self._job(name, workspace))

    def get_job_status(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Status of the job, its steps and their tasks."""
        path = f"{self._job(name, workspace)}/status"
        answer = self._entity("GET", path)
        if not isinstance(answer.get("status"), str):
            raise self._misfit("GET", path, "an object with a status")
        return answer

    def cancel_job(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Ask for the job's end; the answer is the job after the request, not after the end."""
        return self._entity("POST", f"{self._job(name, workspace)}/cancel")

    def pause_job(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Ask the job to pause; the answer is the job after the request."""
        return self._entity("POST", f"{self._job(name, workspace)}/pause")

    def resume_job(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Ask the paused job to go on; the answer is the job after the request."""
        return self._entity("POST", f"{self._job(name, workspace)}/resume")

    def delete_job(self, name: str, *, workspace: str | None = None) -> None:
        """Remove an ended job with its logs."""
        self._transport.request("DELETE", self._job(name, workspace))

    # --- logs -------------------------------------------------------------------------------------

    def get_logs(
        self,
        name: str,
        *,
        workspace: str | None = None,
        which: LogFilter = EVERY_LINE,
        limit: int | None = None,
        tail: int | None = None,
        page_cursor: str | None = None,
    ) -> JsonObject:
        """One page: `{data, total, next_page, prev_page}`, oldest line first."""
        query = {
            "attempt_id": which.attempt_id,
            "step_id": which.step_id,
            "task_id": which.task_id,
            "limit": limit,
            "tail": tail,
            "page_cursor": page_cursor,
        }
        path = f"{self._job(name, workspace)}/logs"
        page = self._page(path, query)
        if not is_log_page(page):
            raise self._misfit("GET", path, "a page of a log")
        return page

    def log_pages(
        self,
        name: str,
        *,
        workspace: str | None = None,
        which: LogFilter = EVERY_LINE,
        limit: int | None = None,
        page_cursor: str | None = None,
    ) -> Iterator[JsonObject]:
        """Every page from `page_cursor` (None: the first line) on."""
        while True:
            page = self.get_logs(name, workspace=workspace, which=which, limit=limit, page_cursor=page_cursor)
            yield page
            if page.get("next_page") is None:
                return
            page_cursor = following(page, "next_page", page_cursor)

    # --- results ----------------------------------------------------------------------------------

    def list_results(self, job: str, *, workspace: str | None = None) -> list[JsonObject]:
        """The job's results, without their content."""
        rows: list[JsonObject] = self._page(f"{self._job(job, workspace)}/results", {})["data"]
        return rows

    def download_result(self, job: str, result: str, *, most_bytes: int, workspace: str | None = None) -> bytes:
        """A result's content: a file as it is, a directory as a compressed tar archive.

        :param most_bytes: a larger one is `BadAnswer`
        """
        path = f"{self._job(job, workspace)}/results/{segment(result)}/download"
        return self._transport.download(path, most_bytes=most_bytes)

    # --- steps and tasks --------------------------------------------------------------------------

    def list_steps(
        self,
        job: str,
        *,
        workspace: str | None = None,
        filter: JsonObject | str | None = None,
        sort: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> JsonObject:
        """One page of the job's steps; `-` as the job means those of all jobs."""
        query = {"page": page, "page_size": page_size, "sort": sort, "filter": _filter_text(filter)}
        return self._page(f"{self._job(job, workspace)}/steps", query)

    def get_step(self, job: str, step: str, *, workspace: str | None = None) -> JsonObject:
        """The step."""
        return self._entity("GET", f"{self._job(job, workspace)}/steps/{segment(step)}")

    def list_tasks(self, job: str, step: str, *, workspace: str | None = None) -> JsonObject:
        """`{data: [task, …]}` of the step."""
        return self._page(f"{self._job(job, workspace)}/steps/{segment(step)}/tasks", {})

    def get_task(self, job: str, step: str, task: str, *, workspace: str | None = None) -> JsonObject:
        """The task."""
        path = f"{self._job(job, workspace)}/steps/{segment(step)}/tasks/{segment(task)}"
        return self._entity("GET", path)

    # ----------------------------------------------------------------------------------------------

    def _jobs(self, workspace: str | None) -> str:
        return f"{ROOT}/workspaces/{segment(workspace or self.workspace)}/jobs"

    def _job(self, name: str, workspace: str | None) -> str:
        return f"{self._jobs(workspace)}/{segment(name)}"

    def _entity(self, method: str, path: str, body: Any = None) -> JsonObject:
        answer = self._transport.request(method, path, body=body)
        if not isinstance(answer, dict) or not isinstance(answer.get("name"), str):
            raise self._misfit(method, path, "an object with a name")
        return answer

    def _page(self, path: str, query: Mapping[str, Any]) -> JsonObject:
        answer = self._transport.request("GET", path, query=query)
        if not is_page(answer):
            raise self._misfit("GET", path, "a page: an object with a list `data`")
        return answer

    def _misfit(self, method: str, path: str, wanted: str) -> BadAnswer:
        return BadAnswer(f"the answer is not {wanted}", method=method, url=self._transport.display_url + path)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _filter_text(filter: JsonObject | str | None) -> str | None:
    return json.dumps(filter) if isinstance(filter, dict) else filter
