"""The FastAPI app mounted at `/apis/jobs`: routers, and our errors in the wire's form."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from nemo_airflow_provider import __version__
from nemo_airflow_provider.api import jobs, logs, profiles, steps
from nemo_airflow_provider.errors import Conflict, NemoJobsError
from nemo_airflow_provider.model.plain import flaw_in

log = logging.getLogger(__name__)


def create_app() -> FastAPI:
    """The jobs API. Error handlers of Airflow's own app do not reach a mounted one, so it has its own."""
    app = FastAPI(
        title="NeMo jobs",
        version=__version__,
        description="Jobs of NVIDIA NeMo Helix, run by Apache Airflow.",
    )
    for router in (profiles.router, jobs.router, logs.router, steps.router):
        app.include_router(router, prefix="/v2")
    app.add_exception_handler(NemoJobsError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
    return app


def _answer(status: int, detail: object, headers: dict[str, str] | None = None) -> JSONResponse:
    # The client repeats every 409 that does not say it must not.
    shown = dict(headers or {}) | ({"x-should-retry": "false"} if status == Conflict.http_status else {})
    return JSONResponse({"detail": detail}, status_code=status, headers=shown)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, NemoJobsError)
    if error.http_status >= 500:
        log.warning("%s: %s", error.code, error)
    return _answer(error.http_status, str(error))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # The body is told back in part: not those parts that no JSON can hold.
    problems = [{**item, "input": None} if flaw_in(item.get("input")) else item for item in error.errors()]
    return _answer(422, jsonable_encoder(problems, custom_encoder={ValueError: str}))


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, error.detail, dict(error.headers or {}))


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(500, "An unexpected error occurred.")
