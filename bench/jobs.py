"""From the call that creates a job to the first answer that says completed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from bench.registry import System, measurement

POLL_SECONDS = 0.02
PATH = "/apis/jobs/v2/workspaces/default/jobs"
#: The first jobs meet what is done once: an API worker's first create, the DAG of a new shape, a first task process.
WARM_UP_JOBS = 3
PROCESS = {"provider": "subprocess", "profile": "default", "command": ["true"]}
TERMINAL = ("completed", "error", "cancelled")


@measurement("job_of_1_step_seconds", runs=10, warm_up=WARM_UP_JOBS)
def one_step(system: System) -> float:
    return seconds_to_complete(system, steps=1)


@measurement("job_of_3_steps_seconds", runs=5, warm_up=WARM_UP_JOBS)
def three_steps(system: System) -> float:
    return seconds_to_complete(system, steps=3)


def seconds_to_complete(system: System, steps: int, executor: Mapping[str, Any] = PROCESS) -> float:
    """Create a job of steps that run `true`, and ask for its status every 20 ms.

    :param executor: of each step
    :raises RuntimeError: it did not complete
    """
    name = f"bench-{secrets.token_hex(6)}"
    body = {
        "name": name,
        "source": "bench",
        "spec": {},
        "platform_spec": {"steps": [{"name": f"step-{n}", "executor": dict(executor)} for n in range(steps)]},
    }
    with system.client() as client:
        client.get(PATH).raise_for_status()  # connected before the clock starts
        began = time.perf_counter()
        client.post(PATH, json=body).raise_for_status()
        while True:
            status = client.get(f"{PATH}/{name}/status").raise_for_status().json()["status"]
            if status in TERMINAL:
                break
            time.sleep(POLL_SECONDS)
        taken = time.perf_counter() - began
    if status != "completed":
        raise RuntimeError(f"job {name} ended as {status}")
    return taken
