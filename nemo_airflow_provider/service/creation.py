"""Creating a job: the checks in the contract's order, then the shape, then the run under the name's lock."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.errors import Conflict, InvalidJob, Unavailable
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.body import generated_name
from nemo_airflow_provider.model.shape import shape_of
from nemo_airflow_provider.model.spec import JobRequest, JobSpec
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.profiles import ProfileSet
from nemo_airflow_provider.profiles.admission import admitted, conf_of
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.away import advised
from nemo_airflow_provider.service.gateway import Caller, Gateway, Right, RunState
from nemo_airflow_provider.service.lookup import holder_of
from nemo_airflow_provider.service.secretcheck import require_secrets
from nemo_airflow_provider.service.view import JobView


class Creation:
    """Makes jobs for one caller."""

    def __init__(self, gateway: Gateway, access: Access, caller: Caller, profiles: ProfileSet) -> None:
        self._gateway = gateway
        self._access = access
        self._caller = caller
        self._profiles = profiles

    async def create(self, workspace: str, request: JobRequest, given: Mapping[str, Any]) -> dict[str, Any]:
        """Validate, store and start a job.

        :param given: the body as it came, to name the keys nobody knows
        :return: the Job object in status `created`
        :raises InvalidJob: it cannot run as written
        :raises Conflict: the name is taken, or a secret cannot be had
        :raises Unavailable: Airflow cannot take it now; the text says whether the job may have been created
        """
        name = request.name or _make_name(request.source)
        with advised(f"Look whether job '{name}' was created before you try again."):
            async with AsyncExitStack() as held:
                with advised("No job was created; try again."):
                    spec, warnings = await self._admitted(workspace, name, request, given)
                    dag_id = await self._dag_of(workspace, spec)
                    await held.enter_async_context(self._gateway.name_lock(workspace, name, dag_id))
                    run_id = await run_in_threadpool(self._free_run_id, workspace, name)
                    await run_in_threadpool(self._check_shape, dag_id)
                try:
                    row = await self._gateway.trigger(self._caller, dag_id, run_id, conf_of(spec, warnings))
                except Conflict:
                    # Airflow's own door knows no lock of ours: somebody took the run id there a moment ago.
                    raise _taken_error(workspace, name) from None
        return render.job(JobView(row, RunState(), spec, row.run_after, tuple(warnings)), Status.CREATED)

    async def _admitted(
        self, workspace: str, name: str, request: JobRequest, given: Mapping[str, Any]
    ) -> tuple[JobSpec, list[str]]:
        """The checks before anything is stored, in the contract's order; see `admitted`."""
        await run_in_threadpool(self._access.enter_to_create, workspace)
        spec, warnings = await run_in_threadpool(admitted, self._profiles, request, given)
        if await run_in_threadpool(self._taken, workspace, name):
            raise _taken_error(workspace, name)
        await run_in_threadpool(require_secrets, self._gateway, self._access, workspace, spec.platform_spec.steps)
        if spec.output_location is not None:
            raise InvalidJob(f"fileset '{spec.output_location}' not found or not accessible in workspace '{workspace}'")
        return spec, warnings

    async def _dag_of(self, workspace: str, spec: JobSpec) -> str:
        """The DAG of the job's shape, once Airflow can run it and the caller may."""
        shape = shape_of(workspace, spec.platform_spec.shape())
        await self._gateway.ensure_shape(shape.dag_id, shape.dumps())
        # The shape's DAG exists now, and may have permissions of its own.
        await run_in_threadpool(self._access.require, Right.CREATE, workspace, shape.dag_id)
        return shape.dag_id

    def _check_shape(self, dag_id: str) -> None:
        """The sweep may have retired a shape that nobody had used for long; under the lock it does not."""
        if not self._gateway.has_shape(dag_id):
            raise Unavailable(f"The job shape {dag_id} was being retired. No job was created; try again.")

    def _taken(self, workspace: str, name: str) -> bool:
        return holder_of(self._gateway.runs_named(workspace, name)) is not None

    def _free_run_id(self, workspace: str, name: str) -> str:
        """The first run id that no run of the workspace has, in any shape; call it under the name's lock."""
        rows = self._gateway.runs_named(workspace, name)
        if holder_of(rows) is not None:
            raise _taken_error(workspace, name)
        taken = {row.run_id for row in rows}  # those of authored DAGs are in the way of none
        return next(free for ordinal in count(1) if (free := names.run_id_of(name, ordinal)) not in taken)


def _make_name(source: str) -> str:
    alphabet = string.ascii_lowercase + string.digits
    return generated_name(source, "".join(secrets.choice(alphabet) for _ in range(8)))


def _taken_error(workspace: str, name: str) -> Conflict:
    return Conflict(
        f"Job '{name}' already exists in workspace '{workspace}'. Choose a different job name or delete the existing "
        "job before creating a new one."
    )
