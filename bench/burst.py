"""Many jobs at once: that each is run, that its workload is started once, and what a job of them costs.

Beside it what Airflow alone needs for as many runs of a task that does as little.
"""

from __future__ import annotations

import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bench import stock
from bench.jobs import PATH, TERMINAL
from bench.registry import System, measurement

#: As many callers as create jobs; each waits for its answer.
CALLERS = 8
LIMIT_SECONDS = 900
#: A look reads all of them, which takes processor time from what is measured.
LOOK_SECONDS = 1.0
END_SECONDS = 120
TRIES = 10

T = TypeVar("T")
_GOOD = {"completed", "success"}
_ENDED = {*TERMINAL, *_GOOD, "failed"}


@measurement("burst_seconds_per_job", runs=1, warm_up=0)
def seconds_per_job(system: System) -> float:
    """From the first create to the answer that says completed of all, by the number of jobs.

    :raises RuntimeError: a job did not complete, or its workload did not start exactly once
    """
    batch = f"burst-{secrets.token_hex(4)}"
    names = [f"{batch}-{number}" for number in range(system.burst)]
    with tempfile.TemporaryDirectory(prefix="nemo-bench-marks-") as marks, system.client() as client:
        try:
            began = time.perf_counter()
            everywhere(lambda name: _create(client, name, Path(marks)), names)
            _wait(lambda: statuses(client, batch, len(names)), len(names))
            taken = time.perf_counter() - began
            check_marks(names, Path(marks))
        except BaseException:
            end(lambda name: client.post(f"{PATH}/{name}/cancel"), names, lambda: statuses(client, batch, len(names)))
            raise
        finally:
            everywhere(lambda name: client.delete(f"{PATH}/{name}"), names)
    return taken / len(names)


@measurement("burst_seconds_per_run_of_airflow_alone", runs=1, warm_up=0, upstream=False)
def seconds_per_stock_run(system: System) -> float:
    """The same for a DAG of one BashOperator that runs `true`, through Airflow's own API."""
    batch = f"burst-{secrets.token_hex(4)}"
    names = [f"{batch}-{number}" for number in range(system.burst)]
    with system.client() as client:
        try:
            began = time.perf_counter()
            everywhere(lambda name: stock.start(client, name, "true"), names)
            _wait(lambda: stock.states(client, batch), len(names))
            return (time.perf_counter() - began) / len(names)
        except BaseException:
            end(lambda name: stock.stop(client, name), names, lambda: stock.states(client, batch))
            raise
        finally:
            everywhere(lambda name: stock.remove(client, name), names)


def everywhere(call: Callable[[str], Any], names: Iterable[str]) -> None:
    """Make a call for each of the names, a few at a time; the first error of any is raised."""
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(lambda name: patiently(lambda: call(name)), names))


def patiently(call: Callable[[], T]) -> T:
    """Try again, as any client does of a server that is overwhelmed: no answer, or one with 5xx.

    The time it takes counts; `call` must stand being made twice.
    """
    for attempt in range(TRIES):
        try:
            return call()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            refused = isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500
            if refused or attempt == TRIES - 1:
                raise
        time.sleep(LOOK_SECONDS)
    raise AssertionError("TRIES is not positive")


def posted(client: httpx.Client, path: str, body: Any) -> None:
    """Make something that has a name; that it is there already is the answer to a call that was made before."""
    answer = client.post(path, json=body)
    if answer.status_code != httpx.codes.CONFLICT:
        answer.raise_for_status()


def created(client: httpx.Client, name: str, command: list[str], profile: str = "default") -> None:
    """Make a job of the step `one`.

    :param profile: of provider subprocess
    """
    step = {"name": "one", "executor": {"provider": "subprocess", "profile": profile, "command": command}}
    posted(client, PATH, {"name": name, "source": "bench", "spec": {}, "platform_spec": {"steps": [step]}})


def end(stop: Callable[[str], Any], names: Iterable[str], look: Callable[[], list[str]]) -> None:
    """Stop what a failed measurement has left, so that it costs the next one nothing; for two minutes at most."""
    everywhere(stop, names)
    deadline = time.monotonic() + END_SECONDS
    while set(patiently(look)) - _ENDED and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def remove(client: httpx.Client, name: str) -> None:
    """Cancel and delete a job, as far as it is there; for two minutes at most."""
    deadline = time.monotonic() + END_SECONDS
    with suppress(httpx.HTTPError):  # what was measured counts all the same
        patiently(lambda: client.post(f"{PATH}/{name}/cancel"))
        while patiently(lambda: client.delete(f"{PATH}/{name}")).status_code == httpx.codes.CONFLICT:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)


def statuses(client: httpx.Client, batch: str, count: int) -> list[str]:
    """Those of the jobs whose name begins with `batch`.

    :param count: of them; they are the newest
    """
    query: dict[str, str | int] = {"page_size": count, "sort": "-created_at"}
    rows = client.get(PATH, params=query).raise_for_status().json()["data"]
    return [row["status"] for row in rows if row["name"].startswith(batch)]


def check_marks(names: Iterable[str], folder: Path) -> None:
    """Each workload leaves a line in a file of its own.

    :raises RuntimeError: none, or more than one
    """
    starts = {name: _lines(folder / name) for name in names}
    if wrong := {name: count for name, count in starts.items() if count != 1}:
        raise RuntimeError(f"{len(wrong)} of {len(starts)} workloads were not started exactly once: {wrong}")


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def _create(client: httpx.Client, name: str, folder: Path) -> None:
    command = ["sh", "-c", f"echo started >> {shlex.quote(str(folder / name))}"]
    created(client, name, command)


def _wait(look: Callable[[], list[str]], count: int) -> None:
    """Until as many are completed (`success` to Airflow).

    :raises RuntimeError: one ended otherwise, or the time is over
    """
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        seen = patiently(look)
        if bad := [status for status in seen if status in _ENDED - _GOOD]:
            raise RuntimeError(f"{len(bad)} of {count} ended as {', '.join(sorted(set(bad)))}")
        done = sum(status in _GOOD for status in seen)
        if done == count:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{done} of {count} had completed after {LIMIT_SECONDS} s")
        time.sleep(LOOK_SECONDS)
