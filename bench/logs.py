"""A million lines printed at once: how fast all of them are stored, and what reading them costs."""

from __future__ import annotations

import secrets
import statistics
import time
from datetime import datetime
from functools import cache
from typing import Any

import httpx

from bench.jobs import PATH, TERMINAL
from bench.registry import System, measurement

MANY, FEW = 1_000_000, 10_000
CALLS = 40
PAGE_LINES, TAIL_LINES = 100, 500


@measurement("log_1000000_lines_stored_per_second", runs=2, upstream=False)
def stored_per_second(system: System) -> float:
    """From the time of the first line to the answer that counts them all."""
    with system.client() as client:
        name = _print_lines(client, MANY)
        while (page := _logs(client, name, limit=1))["total"] < MANY:
            if page["total"] == 0 and _status(client, name) in TERMINAL:
                raise RuntimeError(f"job {name} ended without a line")
            time.sleep(0.01)
        seconds = time.time() - datetime.fromisoformat(page["data"][0]["timestamp"]).timestamp()
        _check(client, name, MANY)
    return MANY / seconds


@measurement("log_1000000_lines_first_page_milliseconds", runs=3, upstream=False)
def first_page(system: System) -> float:
    return _median_milliseconds(system, MANY, {"limit": PAGE_LINES})


@measurement("log_1000000_lines_middle_page_milliseconds", runs=3, upstream=False)
def middle_page(system: System) -> float:
    return _median_milliseconds(system, MANY, {"limit": PAGE_LINES, "page_cursor": _middle(system.url, MANY)})


@measurement("log_1000000_lines_tail_500_milliseconds", runs=3, upstream=False)
def tail(system: System) -> float:
    return _median_milliseconds(system, MANY, {"tail": TAIL_LINES})


@measurement("log_10000_lines_first_page_milliseconds", runs=3, upstream=False)
def first_page_of_few(system: System) -> float:
    return _median_milliseconds(system, FEW, {"limit": PAGE_LINES})


@measurement("log_10000_lines_tail_500_milliseconds", runs=3, upstream=False)
def tail_of_few(system: System) -> float:
    return _median_milliseconds(system, FEW, {"tail": TAIL_LINES})


@measurement("log_1000000_lines_read_api_memory_growth_megabytes", runs=1, upstream=False)
def memory_growth(system: System) -> float:
    """Resident memory of the API server's processes, before and after reading everything in pages of 10,000."""
    name = _job(system.url, MANY)
    with system.client() as client:
        before = system.api_megabytes()
        read, cursor = 0, None
        while True:
            page = _logs(client, name, limit=10_000, **({"page_cursor": cursor} if cursor else {}))
            read, cursor = read + len(page["data"]), page["next_page"]
            if cursor is None:
                break
    if read != MANY:
        raise RuntimeError(f"{read} of {MANY} lines were read")
    return system.api_megabytes() - before


def _median_milliseconds(system: System, lines: int, query: dict[str, Any]) -> float:
    name = _job(system.url, lines)
    taken = []
    with system.client() as client:
        for _ in range(CALLS):
            began = time.perf_counter()
            _logs(client, name, **query)
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


@cache
def _job(url: str, lines: int) -> str:
    """A finished job that printed so many lines."""
    with httpx.Client(base_url=url, timeout=60) as client:
        name = _print_lines(client, lines)
        while _status(client, name) not in TERMINAL:
            time.sleep(0.05)
        _check(client, name, lines)
    return name


@cache
def _middle(url: str, lines: int) -> str:
    """Cursor of a page in the middle of the log."""
    name = _job(url, lines)
    with httpx.Client(base_url=url, timeout=60) as client:
        page, seen = _logs(client, name, limit=10_000), 10_000
        while seen < lines // 2:
            page, seen = _logs(client, name, limit=10_000, page_cursor=page["next_page"]), seen + 10_000
    return str(page["next_page"])


def _print_lines(client: httpx.Client, lines: int) -> str:
    name = f"bench-{secrets.token_hex(6)}"
    # About 80 characters a line, as fast as a process can print.
    command = [
        "seq",
        "-f",
        "line %010.0f of a log that a quick process prints, eighty characters in all .....",
        str(lines),
    ]
    step = {"name": "print", "executor": {"provider": "subprocess", "command": command}}
    body = {"name": name, "source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
    client.post(PATH, json=body).raise_for_status()
    return name


def _check(client: httpx.Client, name: str, lines: int) -> None:
    page = _logs(client, name, tail=1)
    last = page["data"][-1]["message"].split()[1] if page["data"] else "nothing"
    if page["total"] != lines or last != f"{lines:010}":
        raise RuntimeError(f"job {name} printed {lines} lines; {page['total']} are stored, the last is {last}")


def _status(client: httpx.Client, name: str) -> str:
    return str(client.get(f"{PATH}/{name}/status").raise_for_status().json()["status"])


def _logs(client: httpx.Client, name: str, **query: Any) -> dict[str, Any]:
    page: dict[str, Any] = client.get(f"{PATH}/{name}/logs", params=query).raise_for_status().json()
    return page
