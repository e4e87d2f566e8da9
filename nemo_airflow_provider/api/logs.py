"""Endpoint 9: a job's log."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from typing import Annotated, Any

from fastapi import APIRouter, Query

from nemo_airflow_provider.api.dependencies import ServicesDep
from nemo_airflow_provider.service.joblog import LogRequest

router = APIRouter(prefix="/workspaces/{workspace}/jobs", tags=["logs"])


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
    request = LogRequest(limit, tail, page_cursor, attempt_id, step_id, task_id)
    return services.logs.page(workspace, name, request)
