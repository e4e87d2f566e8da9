"""What becomes of 100,000 lines that one container prints at once, beside the same in an operator of Airflow's own.

Twice each: left alone, for how long it takes and how many of the lines can be read afterwards; and watched, for how
long after it was printed a line is seen.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import httpx

from bench import stock_runs
from bench.burst import patiently, posted, remove
from bench.jobs import PATH, TERMINAL
from bench.registry import System

LINES = 100_000
#: These tell when they are printed: the first, one in the middle of the flood, the last.
PROBES = {"first": 1, "middle": LINES // 2, "last": LINES}
#: Airflow reads a whole log to answer what is new in it, so that looking often would slow down what is looked at.
_LOOK_SECONDS = 0.5
_POLL_SECONDS = 0.05
_LIMIT_SECONDS = 180
_PAGE = 10_000
#: An operator may put the name of the container before it.
_LINE = re.compile(r"(?:\[\w+\] )?line (\d+) (?:at ([\d.]+) )?")
#: From a command to the executor of a step that runs it in a container.
Executor = Callable[[list[str]], dict[str, Any]]

#: A container has the clock of its host, to 10 ms; reading a file starts no process.
_UPTIME = Path("/proc/uptime")
_PRINT = f"""BEGIN {{
    for (n = 1; n <= {LINES}; n++) {{
        at = ""
        if (n == 1 || n == {LINES // 2} || n == {LINES}) {{
            getline up < "{_UPTIME}"; close("{_UPTIME}"); split(up, words, " "); at = "at " words[1] " "
        }}
        printf "line %06d %sof a log that a quick process prints, eighty characters .....\\n", n, at
        if (at) fflush()
    }}
}}"""
COMMAND = ["awk", _PRINT]


def of_both(system: System, executor: Executor, dag: str) -> dict[str, float]:
    """What becomes of them of a job of one step, and of a run of one task.

    :param executor: of the step
    :param dag: of the task
    """
    with system.client() as client:
        job = left_alone(Job(client, executor)) | watched(Job(client, executor))
        stock = left_alone(stock_task(client, dag)) | watched(stock_task(client, dag))
    return side_by_side(job, stock)


def side_by_side(job: Mapping[str, float], stock: Mapping[str, float]) -> dict[str, float]:
    """The numbers of both, and the ratios of those that can be compared."""
    ratios = {f"job_over_stock_operator_{name}": job[name] / stock[name] for name in job if stock.get(name)}
    return (
        {f"job_{name}": number for name, number in job.items()}
        | {f"stock_operator_{name}": number for name, number in stock.items()}
        | ratios
    )


class Printer(Protocol):
    """Something that runs a command in a container and keeps what it prints."""

    def started(self, command: list[str]) -> AbstractContextManager[None]:
        """It runs, and is removed after the block."""

    def has_ended(self) -> bool:
        """Whether it has.

        :raises RuntimeError: otherwise than well
        """

    def new_lines(self) -> list[str]:
        """What is newest, as somebody asks who watches; the last is the newest."""

    def all_lines(self) -> list[str]:
        """All that can be read now."""


class Job:
    """A job of one step."""

    def __init__(self, client: httpx.Client, executor: Executor) -> None:
        self._client = client
        self._executor = executor
        self._name = f"bench-{secrets.token_hex(6)}"

    @contextmanager
    def started(self, command: list[str]) -> Iterator[None]:
        step = {"name": "print", "executor": self._executor(command)}
        body = {"name": self._name, "source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
        posted(self._client, PATH, body)
        try:
            yield
        finally:
            remove(self._client, self._name)

    def has_ended(self) -> bool:
        status = self._got("/status")["status"]
        if status in TERMINAL and status != "completed":
            raise RuntimeError(f"job {self._name} ended as {status}")
        return bool(status == "completed")

    def new_lines(self) -> list[str]:
        return [line["message"] for line in self._got("/logs", tail=1)["data"]]

    def all_lines(self) -> list[str]:
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = self._got("/logs", limit=_PAGE, **cursor)
            found += [line["message"] for line in page["data"]]
            if page["next_page"] is None:
                return found
            cursor = {"page_cursor": page["next_page"]}

    def _got(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self._client.get(f"{PATH}/{self._name}{path}", params=query)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


def stock_task(client: httpx.Client, dag: str) -> stock_runs.Run:
    """A run of one task, once Airflow knows the DAG."""
    run = stock_runs.Run(client, f"bench-{secrets.token_hex(6)}", dag)
    run.wait_for_dag()
    return run


def left_alone(printer: Printer) -> dict[str, float]:
    """How long it takes from the call that starts it, and what can be read when it has ended.

    Where the first line cannot be read, nothing tells how quickly the others came.
    """
    began = time.perf_counter()
    with printer.started(COMMAND):
        _until(printer.has_ended, _POLL_SECONDS)
        seconds, ended = time.perf_counter() - began, _uptime()
        text = printer.all_lines()
    numbers = list(_numbers(text))
    readable = set(numbers)
    first = _printed(text).get("first")
    speed = {} if first is None else {"lines_per_second": len(readable) / (ended - first)}
    return {
        "seconds": seconds,
        "lines_readable": len(readable),
        "lines_repeated": len(numbers) - len(readable),
        "lines_out_of_order": sum(later < earlier for earlier, later in pairwise(numbers)),
        **speed,
    }


def watched(printer: Printer) -> dict[str, float]:
    """How many seconds after it was printed a line is seen by who asks twice a second.

    A line that cannot be read in the end has no number.
    """
    seen: dict[str, float] = {}

    def look() -> bool:
        over = printer.has_ended()  # asked first, so that the last look sees all
        newest = max(_numbers(printer.new_lines()), default=0)
        for name, number in PROBES.items():
            if newest >= number:
                seen.setdefault(name, _uptime())
        return over

    with printer.started(COMMAND):
        _until(look, _LOOK_SECONDS)
        printed = _printed(printer.all_lines())
    return {
        f"{name}_line_seen_after_seconds": max(0.0, seen[name] - printed[name])
        for name in PROBES
        if name in seen and name in printed
    }


def _until(look: Callable[[], bool], pause_seconds: float) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not patiently(look):
        if time.monotonic() > deadline:
            raise RuntimeError(f"it had not ended after {_LIMIT_SECONDS} s")
        time.sleep(pause_seconds)


def _numbers(text: Iterable[str]) -> Iterator[int]:
    return (int(found[1]) for found in map(_LINE.match, text) if found)


def _printed(text: Iterable[str]) -> dict[str, float]:
    """When those lines were printed that tell, by the clock of the host."""
    names = {number: name for name, number in PROBES.items()}
    found = filter(None, map(_LINE.match, text))
    return {names[int(line[1])]: float(line[2]) for line in found if line[2]}


def _uptime() -> float:
    return float(_UPTIME.read_text().split()[0])
