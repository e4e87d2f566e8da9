"""Whether a scheduler that runs also works: its process can outlive its loop.

With LocalExecutor it waits for the tasks at work after an error of its database, and starts none meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from nemo_airflow_provider.standalone.asking import get

HEALTH_PATH = "/api/v2/monitor/health"

#: Seconds between two looks. Airflow itself calls a heartbeat late after `scheduler_health_check_threshold`, 30 s.
LOOK_SECONDS = 10.0
#: A busy machine is late now and then.
LATE_LOOKS = 3


class Pulse:
    """The heartbeat of the scheduler, as Airflow's API tells it.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_look = 0.0
        self._late = 0
        self._beaten_by: int | None = None

    def has_stopped(self, url: str, pid: int) -> bool:
        """Whether a scheduler that had a heartbeat has none any more; asks every ten seconds.

        :param url: of Airflow
        :param pid: the scheduler's process: another one starts anew
        """
        if self._clock() < self._next_look:
            return False
        self._next_look = self._clock() + LOOK_SECONDS
        status = _scheduler_status(url)
        if status == "healthy":
            self._beaten_by = pid
        is_late = status == "unhealthy" and self._beaten_by == pid
        self._late = self._late + 1 if is_late else 0
        return self._late >= LATE_LOOKS


def _scheduler_status(url: str) -> object:
    answer = get(url + HEALTH_PATH)
    if answer is None or answer.status != 200:
        return None
    try:
        return json.loads(answer.body)["scheduler"]["status"]
    except (ValueError, LookupError, TypeError):
        return None
