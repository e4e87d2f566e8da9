"""Endpoints 14, 15, 17 and 19: steps and tasks, for reading."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from nemo_airflow_provider.api.dependencies import ServicesDep
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.listing import PageRequest, StepFilter

router = APIRouter(prefix="/workspaces/{workspace}/jobs", tags=["steps"])

StepSort = Literal["created_at", "-created_at", "updated_at", "-updated_at"]


@router.get("/{name}/steps")
def list_steps(
    workspace: str,
    name: str,
    request: Request,
    services: ServicesDep,
    page: Annotated[int, Query(ge=1)] = 1,
    page_size: Annotated[int, Query(ge=1)] = 25,
    sort: StepSort = "created_at",
) -> dict[str, Any]:
    """A page of steps of a job; `-` as name or workspace means all."""
    return services.listing.steps(workspace, name, PageRequest(page, page_size, sort), _filter(request))


@router.get("/{job}/steps/{name}")
def get_step(workspace: str, job: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """A step by name or id."""
    return render.step(services.lookup.step(workspace, job, name))


@router.get("/{job}/steps/{name}/tasks")
def list_tasks(workspace: str, job: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """The tasks of a step."""
    step = services.lookup.step(workspace, job, name)
    return {"data": [render.task(step, row) for row in step.tasks]}


@router.get("/{job}/steps/{step}/tasks/{name}")
def get_task(workspace: str, job: str, step: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """A task by name or id."""
    return render.task(*services.lookup.task(workspace, job, step, name))


def _filter(request: Request) -> StepFilter:
    """`filter[job]`, `filter[status]`, `filter[source]`: comma lists (contract §4); a key given again adds to it."""
    asked: dict[str, tuple[str, ...]] = {}
    for key, value in request.query_params.multi_items():
        if not key.startswith("filter["):
            continue
        field = key[len("filter[") :].rstrip("]")
        if field not in ("job", "status", "source", "task_cleanup_pending"):
            raise InvalidJob(
                f"The request contains invalid values. filter.{field}: unknown. "
                "Expected one or more of: job, status, source, task_cleanup_pending."
            )
        asked[field] = asked.get(field, ()) + tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        statuses = tuple(Status(value) for value in asked.get("status", ()))
    except ValueError as error:
        raise InvalidJob(
            f"The request contains invalid values. filter.status: {error}. "
            f"Expected one or more of: {', '.join(Status)}."
        ) from None
    return StepFilter(asked.get("job", ()), statuses, asked.get("source", ()), _pending(asked))


def _pending(asked: Mapping[str, tuple[str, ...]]) -> bool | None:
    """`filter[task_cleanup_pending]`: true or false."""
    given = {value.lower() for value in asked.get("task_cleanup_pending", ())}
    if not given:
        return None
    if given not in ({"true"}, {"false"}):
        raise InvalidJob(
            "The request contains invalid values. filter.task_cleanup_pending: "
            f"{', '.join(sorted(given))}. Expected one of: true, false."
        )
    return given == {"true"}
