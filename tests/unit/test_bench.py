from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import jobs, systems
from bench.registry import MEASUREMENTS, Measurement


@pytest.mark.parametrize("nemo", ["/no/such/nemo", "/"])
def test_an_upstream_that_cannot_be_started_does_not_cost_what_was_measured(
    nemo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def ours(folder: Path, database: str | None) -> Iterator[None]:
        yield None

    monkeypatch.setattr(systems, "ours", ours)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setenv("NEMO_BENCH_UPSTREAM", nemo)
    report = bench._report([], runs=1)
    assert report["measurements"] == {}
    assert report["notes"][0].startswith("Upstream was not measured: [Errno ")


class Lonely:
    """A system that is never asked for anything."""

    def each_worker(self) -> Lonely:
        return self


@contextlib.contextmanager
def lonely(*_: object) -> Iterator[Lonely]:
    yield Lonely()


def test_both_systems_have_the_same_warm_up_and_it_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "ours", lonely)
    monkeypatch.setattr(systems, "upstream", lonely)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setenv("NEMO_BENCH_UPSTREAM", "nemo")
    times = iter([9.0, 8.0, 7.0, 1.0, 3.0] * 2)
    entry = Measurement("seconds", lambda system: next(times), runs=2, warm_up=3)
    numbers = bench._report([entry], runs=None)["measurements"]["seconds"]
    one = {"warm_up": [9.0, 8.0, 7.0], "median": 2.0, "best": 1.0, "worst": 3.0, "runs": 2}
    assert numbers == {"ours": one, "upstream": one, "upstream_over_ours": 1.0}


def test_jobs_are_warmed_up_on_every_api_worker() -> None:
    for name in ("job_of_1_step_seconds", "job_of_3_steps_seconds"):
        assert MEASUREMENTS[name].warm_up == jobs.WARM_UP_JOBS == 3


SERVER_OF_TWO = """
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
children = [os.fork()]
if children[0]:
    children.append(os.fork())
if all(children):
    print(server.server_address[1], *children, flush=True)
    server.socket.close()
    sys.stdin.read()
else:
    server.serve_forever()
"""


class Workers:
    """The processes behind an address, as `Component` tells them."""

    def __init__(self, *processes: int) -> None:
        self._processes = processes

    def members(self) -> list[int]:
        return list(self._processes)


@pytest.mark.skipif(not Path("/proc/net").is_dir(), reason="whose connection it is stands in /proc")
def test_connections_go_to_one_worker_after_the_other() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SERVER_OF_TWO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        port, *children = map(int, parent.stdout.readline().split())
        try:
            server: Any = Workers(parent.pid, *children)
            system = systems.RunningSystem(f"http://127.0.0.1:{port}", "nemo", server, api_workers=2)
            seen = []
            warm = system.each_worker()
            for _ in range(4):
                with warm.client() as client:
                    seen.append(int(client.get("/").text))
            assert set(seen[:2]) == set(seen[2:]) == set(children)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
