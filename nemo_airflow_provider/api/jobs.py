"""Endpoints 2 to 7: jobs. Routes parse, call one verb of the service and render."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.api.dependencies import ConfiguredProfilesDep, ProfilesDep, ServicesDep
from nemo_airflow_provider.errors import BadRequest, InvalidJob
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.spec import JobRequest
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.filters import JSON_ONLY, Filter, parse_filter
from nemo_airflow_provider.service.listing import PageRequest

router = APIRouter(prefix="/workspaces/{workspace}/jobs", tags=["jobs"])

JobSort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "source", "-source"]


@router.post("", status_code=201)
async def create_job(
    workspace: str,
    services: ServicesDep,
    profiles: ProfilesDep,
    body: Annotated[dict[str, Any], Body()],
) -> dict[str, Any]:
    """Create and start a job."""
    request = await run_in_threadpool(_request_of, body)
    return await services.creation(profiles).create(workspace, request, body)


@router.get("")
def list_jobs(
    workspace: str,
    request: Request,
    services: ServicesDep,
    page: Annotated[int, Query(ge=1)] = 1,
    page_size: Annotated[int, Query(ge=1)] = 10,
    sort: JobSort = "-created_at",
    filter: Annotated[list[str] | None, Query()] = None,
) -> dict[str, Any]:
    """A page of jobs; `filter` as JSON."""
    return services.listing.jobs(workspace, PageRequest(page, page_size, sort), _filter(request, filter or []))


@router.get("/{name}")
def get_job(workspace: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """A job by name or id."""
    return render.job(services.lookup.job(workspace, name))


@router.delete("/{name}", status_code=204)
async def delete_job(workspace: str, name: str, services: ServicesDep) -> Response:
    """Delete a job that is over, with its log."""
    await services.control.delete(workspace, name)
    return Response(status_code=204)


@router.post("/{name}/cancel")
async def cancel_job(workspace: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """Ask a job to stop."""
    return await services.control.cancel(workspace, name)


@router.post("/{name}/pause")
async def pause_job(
    workspace: str, name: str, services: ServicesDep, profiles: ConfiguredProfilesDep
) -> dict[str, Any]:
    """Ask a job to pause: its step is stopped or frozen, as its profile says."""
    return await services.control.pause(workspace, name, profiles)


@router.post("/{name}/resume")
async def resume_job(workspace: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """Ask a paused job to go on."""
    return await services.control.resume(workspace, name)


@router.get("/{name}/status")
def get_job_status(workspace: str, name: str, services: ServicesDep) -> dict[str, Any]:
    """A job's status with its steps and their tasks."""
    return render.job_status(services.lookup.job(workspace, name))


def _request_of(body: dict[str, Any]) -> JobRequest:
    if flaw := flaw_in(body):
        raise InvalidJob(f"The request body cannot be stored: {flaw}.")
    try:
        return JobRequest.model_validate(body)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in problems]) from None


def _filter(request: Request, texts: list[str]) -> Filter | None:
    """The `filter` parameter; what we do not understand is refused, never ignored."""
    bracket = next((key for key in request.query_params if key.startswith("filter[")), None)
    if bracket is not None:
        raise BadRequest(f"Filters of the form {bracket}=… are not supported yet for jobs. {JSON_ONLY}")
    given = [text for text in texts if text]
    if len(given) > 1:
        raise BadRequest("filter is given more than once. Join the filters with $and in one.")
    return parse_filter(given[0]) if given else None
