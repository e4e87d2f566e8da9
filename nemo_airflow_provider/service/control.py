"""Steering a job: cancel and delete. What is asked is written down as an intent; the step obeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.errors import Conflict, NemoJobsError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import DELETED_KEY, INTENT_KEY, Intent, now
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.gateway import Caller, Gateway, Right
from nemo_airflow_provider.service.lookup import Lookup
from nemo_airflow_provider.service.view import JobView


class Control:
    """Changes jobs for one caller."""

    def __init__(self, gateway: Gateway, access: Access, caller: Caller) -> None:
        self._gateway = gateway
        self._access = access
        self._caller = caller
        self._lookup = Lookup(gateway, access)

    async def cancel(self, workspace: str, identifier: str) -> dict[str, Any]:
        """Ask a job to stop; one that is over stays as it is.

        :return: the Job object after the change
        :raises NotFound: no such job
        :raises Forbidden: not this caller's to cancel
        """
        view = await run_in_threadpool(self._lookup.job, workspace, identifier)
        await run_in_threadpool(self._access.require, Right.UPDATE, workspace, [view.run.dag_id])
        if view.status.terminal or view.status is Status.CANCELLING:
            return render.job(view)
        async with self._gateway.name_lock(workspace, view.name):
            await run_in_threadpool(self._write_intent, view, Action.CANCEL)
        view = await run_in_threadpool(self._lookup.job, workspace, identifier)
        if view.run.state == "queued" and all(step.record is None for step in view.all_steps):
            view = await self._end_unstarted(view)
        return render.job(view)

    async def _end_unstarted(self, view: JobView) -> JobView:
        """End a run at once that has not begun any step; one that begins meanwhile reads the intent itself."""
        try:
            await self._gateway.mark_failed(self._caller, view.run)
        except NemoJobsError:
            # It began, ended or was deleted meanwhile: the intent does the rest.
            return view
        return await run_in_threadpool(self._lookup.job, view.workspace, view.name)

    def _write_intent(self, view: JobView, action: Action) -> None:
        intent = Intent(action=action, by=self._caller.name, at=now(), clear_number=view.run.clear_number).model_dump(
            mode="json"
        )
        task_ids = [names.task_id_of(step.name) for step in view.spec.platform_spec.steps]
        self._gateway.write_value(view.run, task_ids, INTENT_KEY, intent)

    async def delete(self, workspace: str, identifier: str, remove_logs: Callable[[str, str], None]) -> None:
        """Hide a job that is over, free its name and remove its log.

        :param remove_logs: removes the log of (workspace, run key)
        :raises Conflict: it is not over
        """
        view = await run_in_threadpool(self._lookup.job, workspace, identifier)
        await run_in_threadpool(self._access.require, Right.DELETE, workspace, [view.run.dag_id])
        async with self._gateway.name_lock(workspace, view.name):
            view = await run_in_threadpool(self._lookup.job, workspace, identifier)
            if not view.status.terminal:
                raise Conflict(
                    f"Cannot delete job '{view.name}' while it is '{view.status}'. Cancel the job and wait for it "
                    "to reach a terminal state before deleting."
                )
            first = names.task_id_of(view.spec.platform_spec.steps[0].name)
            mark = {"by": self._caller.name, "at": now().isoformat()}
            await run_in_threadpool(self._gateway.write_value, view.run, [first], DELETED_KEY, mark)
        await run_in_threadpool(remove_logs, workspace, view.key)
