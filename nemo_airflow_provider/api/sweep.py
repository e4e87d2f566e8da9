"""The sweep's routes: for tasks of the DAG `nemo-sweep`, and for nobody else."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from nemo_airflow_provider import settings
from nemo_airflow_provider.api.dependencies import enter
from nemo_airflow_provider.service import sweeprows
from nemo_airflow_provider.service.sweep import SweepOffice
from nemo_airflow_provider.sweep import SWEEP_DAG_ID
from nemo_airflow_provider.sweep.credential import CREDENTIAL_KEY, read_token
from nemo_airflow_provider.sweep.office import MOST_JOBS, AskedJob, Ending, JobStanding

#: Not part of the wire contract, so not in its documentation either.
router = APIRouter(prefix="/internal/sweep", include_in_schema=False)


class Asked(BaseModel):
    """What every question has.

    :param installation: as the worker sees it
    """

    installation: str


class AskedStandings(Asked):
    """Body of `/standings`."""

    jobs: list[AskedJob] = Field(max_length=MOST_JOBS)


class AskedEndings(Asked):
    """Body of `/endings`."""

    endings: list[Ending] = Field(max_length=MOST_JOBS)


def office(request: Request) -> SweepOffice:
    """The office, for a task instance of the sweep's DAG that runs now and has stored its credential's digest.

    No right of a user opens these routes: a token of Airflow's own is no credential here.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    credential = read_token(token) if scheme.lower() == "bearer" else None
    if credential is not None:
        stored = sweeprows.running_value(SWEEP_DAG_ID, credential.run_id, credential.task_id, CREDENTIAL_KEY)
        if stored is not None and credential.matches(_loaded(stored)):
            enter(request)
            return SweepOffice(settings.storage())
    raise HTTPException(401, "Only a running task of the DAG nemo-sweep may ask this.")


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


OfficeDep = Annotated[SweepOffice, Depends(office)]


@router.post("/chores")
async def chores(asked: Asked, office: OfficeDep) -> dict[str, int]:
    """Do what needs no engine."""
    await run_in_threadpool(office.admit, asked.installation)
    return dict(await office.chores())


@router.post("/standings")
def standings(asked: AskedStandings, office: OfficeDep) -> list[JobStanding]:
    """What becomes of jobs that an engine holds."""
    office.admit(asked.installation)
    return office.standings(asked.jobs)


@router.post("/endings")
async def endings(asked: AskedEndings, office: OfficeDep) -> dict[str, Any]:
    """Write down how workloads ended."""
    await run_in_threadpool(office.admit, asked.installation)
    return {"settled": await office.settle(asked.endings)}
