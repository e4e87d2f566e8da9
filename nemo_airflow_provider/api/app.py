"""The FastAPI app mounted at `/apis/jobs`: routers, and our errors in the wire's form."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from nemo_airflow_provider import __version__
from nemo_airflow_provider.api import dependencies, gpus, jobs, logs, profiles, steps, sweep
from nemo_airflow_provider.api.bodylimit import BodyLimit
from nemo_airflow_provider.errors import Conflict, NemoJobsError
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.service import outage
from nemo_airflow_provider.service.away import DatabaseAway

log = logging.getLogger(__name__)

#: So many things that are wrong with a request are told; whoever sends more of them needs no list.
MAX_PROBLEMS = 100
#: Characters of one message (it may quote what was sent), and of an input that is told back.
_MAX_MESSAGE = 1000
_MAX_INPUT = 200


def create_app() -> FastAPI:
    """The jobs API. Error handlers of Airflow's own app do not reach a mounted one, so it has its own.

    Its documentation needs no login: it holds nothing of an installation, and Airflow's own is as open.
    """
    app = FastAPI(
        title="NeMo jobs",
        version=__version__,
        description="Jobs of NVIDIA NeMo Helix, run by Apache Airflow.",
    )
    for router in (profiles.router, gpus.router, jobs.router, logs.router, steps.router):
        app.include_router(router, prefix="/v2")
    app.include_router(sweep.router)
    app.add_middleware(BodyLimit)
    app.add_exception_handler(NemoJobsError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(DBAPIError, _database)
    app.add_exception_handler(PoolTimeout, _database)
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
    problems = error.errors()
    told = [_told(problem) for problem in problems[:MAX_PROBLEMS]]
    if more := len(problems) - len(told):
        told.append({"type": "too_many_problems", "loc": ["body"], "msg": f"{more} more problems are not told."})
    return _answer(422, told)


def _told(problem: Mapping[str, Any]) -> dict[str, Any]:
    """A problem in pydantic's words. Of the request only what is short is told back: whoever sent it has it."""
    shown = {key: problem[key] for key in ("type", "loc", "msg")} | {"msg": problem["msg"][:_MAX_MESSAGE]}
    if "input" in problem and _is_short(problem["input"]):
        shown["input"] = problem["input"]
    if context := {key: value for key, value in _context(problem) if _is_short(value)}:
        shown["ctx"] = context
    return shown


def _context(problem: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in problem.get("ctx", {}).items():
        yield key, str(value) if isinstance(value, Exception) else value


def _is_short(value: object) -> bool:
    """Whether it is no list or object, not long, and JSON can hold it."""
    if isinstance(value, str) and len(value) > _MAX_INPUT:
        return False
    return isinstance(value, str | int | float | None) and flaw_in(value) is None


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, error.detail, dict(error.headers or {}))


async def _database(request: Request, error: Exception) -> JSONResponse:
    """What no service has told: Airflow's check of a token asks the database whether it was revoked."""
    try:
        with outage.told():
            raise error
    except DatabaseAway as away:
        unchanged = not dependencies.has_entered(request)
        return await _ours(request, away.advising("Nothing was changed; try again.") if unchanged else away)
    except (DBAPIError, PoolTimeout):
        return await _unexpected(request, error)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(500, "An unexpected error occurred.")
