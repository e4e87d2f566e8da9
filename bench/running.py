"""What steps cost while they run and say nothing: questions to the API server, processor time, memory.

Each number stands beside the same of as many stock BashOperator tasks in the same Airflow.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

import httpx

from bench import stock
from bench.burst import created, everywhere, patiently
from bench.jobs import PATH, TERMINAL
from bench.registry import System, measurement

STEPS = 20
WINDOW_SECONDS = 20.0
#: What the start of so many processes leaves behind is not what running costs.
SETTLE_SECONDS = 5.0
LIMIT_SECONDS = 300
_SLEEP = "sleep 3600"


@measurement("running_20_steps", runs=1, warm_up=0, upstream=False)
def steps(system: System) -> Mapping[str, float]:
    """Ours: 20 jobs of one step that sleeps."""
    names = [f"running-{secrets.token_hex(4)}-{number}" for number in range(STEPS)]
    with system.client() as client:

        def stop(name: str) -> None:
            client.post(f"{PATH}/{name}/cancel")

        def all_ended() -> bool:
            return all(status(client, name) in (*TERMINAL, None) for name in names)

        found = observed(
            system,
            STEPS,
            start=lambda: everywhere(lambda name: _create(client, name), names),
            are_running=lambda: all(status(client, name) == "active" for name in names),
            stop=lambda: everywhere(stop, names),
            have_ended=all_ended,
        )
        everywhere(lambda name: client.delete(f"{PATH}/{name}"), names)
        return found


@measurement("running_20_stock_tasks", runs=1, warm_up=0, upstream=False)
def stock_tasks(system: System) -> Mapping[str, float]:
    """Airflow's: 20 runs of one BashOperator that sleeps."""
    names = [f"running-{secrets.token_hex(4)}-{number}" for number in range(STEPS)]
    with system.client() as client:
        found = observed(
            system,
            STEPS,
            start=lambda: everywhere(lambda name: stock.start(client, name, _SLEEP), names),
            are_running=lambda: stock.running(client) == STEPS,
            stop=lambda: everywhere(lambda name: stock.stop(client, name), names),
            have_ended=lambda: stock.running(client) == 0,
        )
        everywhere(lambda name: stock.remove(client, name), names)
        return found


def observed(
    system: System,
    steps: int,
    *,
    start: Callable[[], None],
    are_running: Callable[[], bool],
    stop: Callable[[], None],
    have_ended: Callable[[], bool],
) -> dict[str, float]:
    """What running steps cost, a step or a second.

    :param steps: how many `start` starts
    :raises RuntimeError: so many cannot run at once, or they do not in time
    """
    if system.slots < steps:
        raise RuntimeError(f"{steps} tasks at once need Postgres; this Airflow runs {system.slots}")
    before = system.task_megabytes()
    try:
        start()
        _wait(are_running, "all are running")
        time.sleep(SETTLE_SECONDS)
        numbers = _over_window(system)
        after = system.task_megabytes()
    finally:
        stop()
        _wait(have_ended, "all have ended")
    return numbers | {
        "megabytes_per_airflow_processes": (after.airflow - before.airflow) / steps,
        "megabytes_per_workload_supervisor": (after.supervisors - before.supervisors) / steps,
    }


def status(client: httpx.Client, name: str) -> str | None:
    """A job's; None for one that was not made."""
    answer = client.get(f"{PATH}/{name}/status")
    return None if answer.status_code == 404 else str(answer.raise_for_status().json()["status"])


def _over_window(system: System) -> dict[str, float]:
    """Requests of tasks and processor time of the API server, over a while in which nobody else asks it."""
    position, processor = system.api_log_size(), system.api_processor_seconds()
    began = time.perf_counter()
    time.sleep(WINDOW_SECONDS)
    seconds = time.perf_counter() - began
    spent = system.api_processor_seconds() - processor
    requests = system.task_requests(position)
    polls = sum(count for path, count in requests.items() if path.startswith("/execution/store/"))
    total = sum(requests.values())
    return {
        "state_store_polls_per_second": polls / seconds,
        "task_requests_per_second": total / seconds,
        "api_processor_milliseconds_per_second": spent * 1000 / seconds,
        "api_processor_milliseconds_per_task_request": spent * 1000 / max(total, 1),
    }


def _create(client: httpx.Client, name: str) -> None:
    created(client, name, ["sh", "-c", f"exec {_SLEEP}"])


def _wait(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not patiently(look):
        if time.monotonic() > deadline:
            raise RuntimeError(f"it took more than {LIMIT_SECONDS} s until {what}")
        time.sleep(0.5)
