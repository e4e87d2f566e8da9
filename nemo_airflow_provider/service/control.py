"""Steering a job: pause, resume, cancel and delete. What is asked is written down as an intent; the step obeys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider.errors import Conflict, NemoJobsError
from nemo_airflow_provider.logs.store import remove_run
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import DELETED_KEY, INTENT_KEY, Intent, now
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.profiles import ProfileSet
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.away import DatabaseAway, advised
from nemo_airflow_provider.service.gateway import Caller, Gateway, Right
from nemo_airflow_provider.service.lookup import Lookup
from nemo_airflow_provider.service.powers import require_pause
from nemo_airflow_provider.service.view import JobView
from nemo_airflow_provider.service.waking import Waking

#: Between the record of a completed step and Airflow's word for it lie 0.1 to 0.3 s.
_END_SECONDS = 3.0

#: How long a database that refuses the end of a run is asked again. A deadlock alone takes a second to be told.
_REFUSED_SECONDS = 10.0

#: Also a job that is resuming can be asked to pause, and one that is pausing to resume: nobody has to wait for that.
_PAUSABLE = (Status.CREATED, Status.PENDING, Status.ACTIVE, Status.RESUMING)
_RESUMABLE = (Status.PAUSING, Status.PAUSED, Status.RESUMING)

_UNCHANGED_TEXT = "Nothing was changed; try again."


class Control:
    """Changes jobs for one caller.

    :param storage: where logs are
    :param clock: seconds, for waiting with `sleep`
    """

    def __init__(
        self,
        gateway: Gateway,
        access: Access,
        caller: Caller,
        storage: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._gateway = gateway
        self._access = access
        self._caller = caller
        self._storage = storage
        self._clock = clock
        self._sleep = sleep
        self._lookup = Lookup(gateway, access)
        self._waking = Waking(gateway, caller, self._look_again, clock, sleep)

    async def pause(self, workspace: str, identifier: str, profiles: ProfileSet) -> dict[str, Any]:
        """Ask a job to pause; one that is paused, or ends or has ended, stays as it is.

        :return: the Job object after the change
        :raises NotFound: no such job
        :raises Forbidden: not this caller's to pause
        :raises Conflict: the profile of its step cannot
        """
        with advised(_look_text(identifier)):
            async with self._held(Right.UPDATE, workspace, identifier) as view:
                if view.status in _PAUSABLE:
                    require_pause(view, profiles)
                    await self._ask(view, Action.PAUSE)
            return render.job(await self._again(view))

    async def resume(self, workspace: str, identifier: str) -> dict[str, Any]:
        """Ask a job to go on; one that is not paused stays as it is.

        :return: the Job object after the change
        :raises NotFound: no such job
        :raises Forbidden: not this caller's to resume
        """
        with advised(_look_text(identifier)):
            async with self._held(Right.UPDATE, workspace, identifier) as view:
                if view.status not in _RESUMABLE:
                    return render.job(view)
                await self._may_wake(view)
                await self._ask(view, Action.RESUME)
            return render.job(await self._waking.wake(await self._again(view), Action.RESUME))

    async def cancel(self, workspace: str, identifier: str) -> dict[str, Any]:
        """Ask a job to stop; one that is over stays as it is.

        :return: the Job object after the change
        :raises NotFound: no such job
        :raises Forbidden: not this caller's to cancel
        """
        with advised(_look_text(identifier)):
            async with self._held(Right.UPDATE, workspace, identifier) as view:
                if view.status.terminal:
                    return render.job(view)
                await self._may_wake(view)
                if view.status is not Status.CANCELLING:
                    await self._ask(view, Action.CANCEL)
            view = await self._waking.wake(await self._past_an_end(view), Action.CANCEL)
            return render.job(await self._end_waiting(view, view.run.clear_number))

    async def _may_wake(self, view: JobView) -> None:
        """Before anything is written: whether the caller may answer what a parked step waits for."""
        if view.parked_step is not None:
            await run_in_threadpool(self._access.require, Right.ANSWER, view.workspace, view.run.dag_id)

    async def _ask(self, view: JobView, action: Action) -> None:
        """Write down for every step what is asked."""
        steps = [names.task_id_of(step.name) for step in view.spec.platform_spec.steps]
        await run_in_threadpool(self._write, view, steps, INTENT_KEY, self._intent(view, action))

    @asynccontextmanager
    async def _held(self, right: Right, workspace: str, identifier: str) -> AsyncIterator[JobView]:
        """The job under its name's lock: the one that the right was asked for, whatever took the name before."""
        async with AsyncExitStack() as held:
            with advised(_UNCHANGED_TEXT):
                name = (await run_in_threadpool(self._lookup.job, workspace, identifier)).name
                await held.enter_async_context(self._gateway.name_lock(workspace, name))
                view = await run_in_threadpool(self._lookup.job, workspace, identifier)
                await run_in_threadpool(self._access.require, right, workspace, view.run.dag_id)
            yield view

    async def _past_an_end(self, view: JobView) -> JobView:
        """The job as it is; where a step is just ending well, as it is once Airflow has noted that."""
        deadline = self._clock() + _END_SECONDS
        while True:
            view = await self._again(view)
            if not view.changes_step or self._clock() > deadline:
                return view
            await self._sleep(0.1)

    async def _again(self, view: JobView) -> JobView:
        return await run_in_threadpool(self._look_again, view)

    def _look_again(self, view: JobView) -> JobView:
        return self._lookup.job(view.workspace, view.id)

    async def _end_waiting(self, view: JobView, clear_number: int) -> JobView:
        """End a run at once that has no step at work; one that begins meanwhile reads the intent itself.

        Airflow's API locks the tasks before their run, its scheduler the run before its tasks. Where the API loses that
        deadlock nobody else would end the run: a step without a slot does not read its intent.

        :param clear_number: of the attempt that is to end; a rerun that begins meanwhile is none of our business
        """
        deadline = self._clock() + _REFUSED_SECONDS
        while view.waits and not view.status.terminal and view.run.clear_number == clear_number:
            try:
                await self._gateway.mark_failed(self._caller, view.run)
            except DatabaseAway:
                if self._clock() > deadline:
                    raise
                await self._sleep(0.1)
            except NemoJobsError:
                # It began, ended or was deleted meanwhile: the intent does the rest.
                return view
            else:
                return await self._again(view)
            view = await self._again(view)
        return view

    def _intent(self, view: JobView, action: Action) -> dict[str, Any]:
        intent = Intent(action=action, by=self._caller.name, at=now(), clear_number=view.run.clear_number)
        return intent.model_dump(mode="json")

    def _write(self, view: JobView, task_ids: Sequence[str], key: str, value: Any) -> None:
        """The only thing a request writes here, and all of it in one session."""
        try:
            self._gateway.write_value(view.run, task_ids, key, value)
        except DatabaseAway as error:
            if not error.undone:
                raise
            raise error.advising(_UNCHANGED_TEXT) from error

    async def delete(self, workspace: str, identifier: str) -> None:
        """Hide a job that is over, free its name and remove its log.

        :raises NotFound: no such job
        :raises Forbidden: not this caller's to delete
        :raises Conflict: it is not over
        """
        with advised(_look_text(identifier)):
            async with self._held(Right.DELETE, workspace, identifier) as view:
                if not view.status.terminal:
                    raise Conflict(
                        f"Cannot delete job '{view.name}' while it is '{view.status}'. Cancel the job and wait for it "
                        "to reach a terminal state before deleting."
                    )
                first = names.task_id_of(view.spec.platform_spec.steps[0].name)
                mark = {"by": self._caller.name, "at": now().isoformat()}
                await run_in_threadpool(self._write, view, [first], DELETED_KEY, mark)
        await run_in_threadpool(remove_run, self._storage, workspace, view.key)


def _look_text(identifier: str) -> str:
    return f"The change may have been stored: look at job '{identifier}' before you try again."
