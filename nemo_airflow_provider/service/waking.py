"""A step that has given its worker slot back is woken by answering its request on Airflow's pages, as the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import Conflict, NotFound
from nemo_airflow_provider.model.status import OPTIONS, Action
from nemo_airflow_provider.service.gateway import Caller, Gateway
from nemo_airflow_provider.service.view import JobView

#: Beyond Airflow's own pace: how long a task may take from saying that it parks to being parked.
_PARKING_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_OPTION_OF = {action: option for option, action in OPTIONS.items()}


class Waking:
    """Wakes the step of a job for what was just asked of the job.

    :param look: the job as it is now
    :param clock: seconds, for waiting with `sleep`
    """

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        look: Callable[[JobView], JobView],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._caller = caller
        self._look = look
        self._clock = clock
        self._sleep = sleep

    async def wake(self, view: JobView, action: Action) -> JobView:
        """Answer the request of a parked step, once that is safe; the job as it is then.

        Airflow 3.3.2 fails a task that is queued again before its scheduler has read how its process ended, which
        takes up to `[workers] min_heartbeat_interval` and some. A call that is cut short here loses nothing: what is
        asked is written down, and the same call again goes on. Whatever was asked meanwhile is newer, and wakes the
        step itself if it is to be woken.
        """
        distance = settings.min_heartbeat_seconds() + 1.0
        deadline = self._clock() + distance + _PARKING_SECONDS
        while (step := view.parked_step) is not None and not view.status.terminal and self._clock() < deadline:
            task, intent = step.task, view.intent
            assert task is not None
            if intent is None or intent.action is not action:
                return view
            if task.state == "awaiting_input" and self._is_old(view, task.updated_at, distance):
                with suppress(Conflict, NotFound):  # somebody else has answered, or cleared the task
                    await self._gateway.answer(self._caller, view.run, task.task_id, _OPTION_OF[action], intent.at)
                return await run_in_threadpool(self._look, view)
            await self._sleep(_LOOK_SECONDS)
            view = await run_in_threadpool(self._look, view)
        return view

    @staticmethod
    def _is_old(view: JobView, since: datetime | None, seconds: float) -> bool:
        return since is None or (view.seen_at - since).total_seconds() >= seconds
