"""Endpoint 9: a job's log."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from typing import Annotated, Any

from fastapi import APIRouter, Query

from nemo_airflow_provider import settings
from nemo_airflow_provider.api.dependencies import ServicesDep
from nemo_airflow_provider.errors import BadRequest
from nemo_airflow_provider.service.gateway import Right
from nemo_airflow_provider.service.joblog import JobLog

router = APIRouter(prefix="/workspaces/{workspace}/jobs", tags=["logs"])

_DEFAULT_LIMIT = 100


@router.get("/{name}/logs")
def get_job_logs(
    workspace: str,
    name: str,
    services: ServicesDep,
    limit: Annotated[int | None, Query(ge=1, le=10000)] = None,
    tail: Annotated[int | None, Query(ge=1, le=10000)] = None,
    page_cursor: str | None = None,
    attempt_id: str | None = None,
    step_id: str | None = None,
    task_id: str | None = None,
) -> dict[str, Any]:
    """A page of output lines, oldest first; `next_page` continues, also later when there is more."""
    if tail is not None and limit is not None:
        raise BadRequest("tail cannot be combined with limit; tail controls the returned log window size.")
    if tail is not None and page_cursor is not None:
        raise BadRequest(
            "tail cannot be combined with page_cursor; pass the returned prev_page as page_cursor without tail."
        )
    view = services.lookup.job(workspace, name)
    services.access.require(Right.READ_LOGS, workspace, [view.run.dag_id])
    log = JobLog(settings.storage(), view, attempt=attempt_id, step=step_id, task=task_id)
    return log.tail(tail) if tail is not None else log.page(limit or _DEFAULT_LIMIT, page_cursor)
