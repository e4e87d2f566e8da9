"""What a pause costs: until the workload stands still and the worker slot is free, and until the job is at work again.

Beside it, in the same sample, what people do without a pause: they cancel the job and create it anew.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from bench.burst import created, remove
from bench.jobs import PATH, TERMINAL
from bench.registry import System, measurement

#: `[nemo] pause_hold_seconds` of the Airflow that is measured; ours is 10, which would be waited for in every sample.
HOLD_SECONDS = 2.0
FREEZING = "freezing"
POLL_SECONDS = 0.02
#: Longer than Airflow needs to see that the paused task's process has ended, as most pauses are.
REST_SECONDS = 4.0
LIMIT_SECONDS = 120

#: Counts, and says when: its newest line tells when it has last been at work.
_COUNTING = """
import time
for number in range(180_000):
    print(number, time.time(), flush=True)
    time.sleep(0.02)
"""
_HOLDS_A_SLOT = ("queued", "running", "restarting")

#: Whether something has happened; asked with the moment, in seconds of the epoch, at which it was asked for.
Look = Callable[[float], bool]


def profiles(home: Path) -> dict[str, Any]:
    """The configuration file of the Airflow that is measured: the default profile, and one that freezes."""
    config = {"working_directory": str(home / "workloads")}
    freezing = {"provider": "subprocess", "profile": FREEZING, "backend": "subprocess"}
    return {
        "platform": {"runtime": "none"},
        "jobs": {
            "executor_defaults": {"subprocess": config},
            "executors": [freezing | {"config": config | {"pause": "freeze"}}],
        },
    }


@measurement("pause_by_stop", runs=5, upstream=False)
def by_stop(system: System) -> Mapping[str, float]:
    """Of a profile with `pause: stop`."""
    return _sample(system, "default")


@measurement("pause_by_freeze", runs=5, upstream=False)
def by_freeze(system: System) -> Mapping[str, float]:
    """Of a profile with `pause: freeze`."""
    return _sample(system, FREEZING)


def _sample(system: System, profile: str) -> dict[str, float]:
    names = [f"pause-{secrets.token_hex(6)}" for _ in range(2)]
    with system.client() as client:
        first, second = (CountingJob(client, name, profile) for name in names)
        try:
            return _measured(first, second)
        finally:
            first.remove()
            second.remove()


def _measured(first: CountingJob, second: CountingJob) -> dict[str, float]:
    seconds_until(first.create, first.at_work())
    pause = seconds_until(
        lambda: first.ask("pause"), {"paused": first.has_status("paused"), "slot_free": first.holds_no_slot}
    )
    pause["standing_still"] = first.worked_on_for()
    time.sleep(REST_SECONDS)
    resume = seconds_until(lambda: first.ask("resume"), first.at_work())
    cancel = seconds_until(
        lambda: first.ask("cancel"), {"cancelled": first.has_status("cancelled"), "slot_free": first.holds_no_slot}
    )
    create = seconds_until(second.create, second.at_work())
    found = {"pause": pause, "resume": resume, "cancel": cancel, "create_anew": create}
    return {f"{verb}_to_{what}_seconds": taken for verb, times in found.items() for what, taken in times.items()} | {
        "pause_over_cancel_to_slot_free": pause["slot_free"] / cancel["slot_free"],
        "resume_over_create_anew_to_next_line": resume["next_line"] / create["next_line"],
    }


def seconds_until(ask: Callable[[], None], looks: Mapping[str, Look]) -> dict[str, float]:
    """Ask for something, and look every 20 ms until all of it has happened.

    :return: seconds from the call to the first look that saw it, by name
    :raises RuntimeError: some of it did not happen in two minutes
    """
    asked = time.time()
    ask()
    seen: dict[str, float] = {}
    while True:
        for name, look in looks.items():
            if name not in seen and look(asked):
                seen[name] = time.time() - asked
        if not (missing := [name for name in looks if name not in seen]):
            return {name: seen[name] for name in looks}
        if time.time() > asked + LIMIT_SECONDS:
            raise RuntimeError(f"after {LIMIT_SECONDS} s there was still no {' and no '.join(missing)}")
        time.sleep(POLL_SECONDS)


class CountingJob:
    """A job of one step that counts, and what is seen of it from outside.

    :param profile: of provider subprocess
    """

    def __init__(self, client: httpx.Client, name: str, profile: str) -> None:
        self._client = client
        self._name = name
        self._url = f"{PATH}/{name}"
        self._profile = profile
        self._asked = 0.0
        self._task = ""

    def create(self) -> None:
        """Make it."""
        created(self._client, self._name, [sys.executable, "-S", "-c", _COUNTING], self._profile)

    def ask(self, verb: str) -> None:
        """Pause, resume or cancel it."""
        self._asked = time.time()
        self._client.post(f"{self._url}/{verb}").raise_for_status()

    def has_status(self, wanted: str) -> Look:
        """Look for a status.

        :raises RuntimeError: when looked at, the job has ended with another one
        """

        def look(_: float) -> bool:
            status = self._got("/status")["status"]
            if status in TERMINAL and status != wanted:
                raise RuntimeError(f"job {self._name} ended as {status} before it was {wanted}")
            return bool(status == wanted)

        return look

    def at_work(self) -> dict[str, Look]:
        """What shows that it has begun, or goes on."""
        return {"active": self.has_status("active"), "next_line": self.has_said_more}

    def has_said_more(self, asked: float) -> bool:
        """Whether its log has a line that it has printed since then."""
        return self._newest() > asked

    def worked_on_for(self) -> float:
        """For how many seconds after what it was last asked for it has counted, to 20 ms; it stands still by now."""
        return max(0.0, self._newest() - self._asked)

    def holds_no_slot(self, _: float) -> bool:
        """Whether Airflow counts its task as neither queued nor running."""
        if not self._task:
            query = {"run_id_pattern": f"{self._name}%"}
            (run,) = self._client.get("/api/v2/dags/~/dagRuns", params=query).raise_for_status().json()["dag_runs"]
            self._task = f"/api/v2/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/one"
        return self._client.get(self._task).raise_for_status().json()["state"] not in _HOLDS_A_SLOT

    def remove(self) -> None:
        """Cancel and delete it, as far as it is there."""
        remove(self._client, self._name)

    def _newest(self) -> float:
        """When the newest line of its log was printed; 0 without one."""
        lines = self._got("/logs", tail=1)["data"]
        return float(lines[0]["message"].split()[1]) if lines else 0.0

    def _got(self, path: str, **query: int) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.get(self._url + path, params=query).raise_for_status().json()
        return answer
