from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from bench import __main__ as bench
from bench import (
    burst,
    cluster,
    docker_steps,
    engine,
    jobs,
    kubernetes_burst,
    kubernetes_running,
    kubernetes_steps,
    lines,
    pausing,
    proc,
    running,
    stock,
    stock_docker,
    stock_kubernetes,
    stock_runs,
    systems,
)
from bench.registry import MEASUREMENTS, Measurement, Skipped, TaskMemory, chosen
from bench.summary import side_by_side, summary
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.docker import connect
from nemo_airflow_provider.profiles import load_profiles
from tests.stack import engines, kubernetes


@pytest.mark.parametrize("nemo", ["/no/such/nemo", "/"])
def test_an_upstream_that_cannot_be_started_does_not_cost_what_was_measured(
    nemo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def ours(folder: Path, database: str | None, slots: int | None) -> Iterator[None]:
        yield None

    monkeypatch.setattr(systems, "ours", ours)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setenv("NEMO_BENCH_UPSTREAM", nemo)
    report = bench._report([], runs=1)
    assert report["measurements"] == {}
    assert report["settings"] == {"[nemo] pause_hold_seconds": pausing.HOLD_SECONDS}
    assert report["notes"][0].startswith("Upstream was not measured: [Errno ")


class Lonely:
    """A system that is never asked for anything."""

    def each_worker(self) -> Lonely:
        return self


@contextlib.contextmanager
def lonely(*_: object, **__: object) -> Iterator[Lonely]:
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


def test_samples_of_several_numbers() -> None:
    ours = summary([], [{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 7.0}])
    assert ours["a"] == {"warm_up": [], "median": 2.0, "best": 1.0, "worst": 3.0, "runs": 2}
    assert ours["b"]["median"] == 6.0
    assert side_by_side(ours, None) == {"ours": ours, "upstream": None}


def test_a_workload_that_is_lost_or_started_twice_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "once").write_text("started\n")
    burst.check_marks(["once"], tmp_path)
    (tmp_path / "twice").write_text("started\nstarted\n")
    with pytest.raises(RuntimeError, match=r"2 of 3 .* \{'twice': 2, 'never': 0\}"):
        burst.check_marks(["once", "twice", "never"], tmp_path)


def test_a_burst_with_a_failure_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="1 of 2 ended as error"):
        burst._wait(lambda: ["completed", "error"], 2)
    burst._wait(lambda: ["success", "completed"], 2)
    monkeypatch.setattr(burst, "LIMIT_SECONDS", 0)
    with pytest.raises(RuntimeError, match="1 of 2 had completed"):
        burst._wait(lambda: ["completed", "active"], 2)


def test_patience_has_an_end_and_is_for_servers_in_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "LOOK_SECONDS", 0)
    answers = iter([None, 503, 200, 404, *[500] * 10, 200])

    def answer(request: httpx.Request) -> httpx.Response:
        status = next(answers)
        if status is None:
            raise httpx.RemoteProtocolError("gone")
        return httpx.Response(status)

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://bench") as client:
        assert burst.patiently(lambda: client.get("/").raise_for_status()).status_code == 200
        for status in (404, 500):
            with pytest.raises(httpx.HTTPStatusError, match=str(status)):
                burst.patiently(lambda: client.get("/").raise_for_status())
    assert list(answers) == [200]


@pytest.mark.parametrize(("status", "raises"), [(201, False), (409, False), (422, True)])
def test_what_is_there_already_is_made(status: int, raises: bool) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status))
    with httpx.Client(transport=transport, base_url="http://bench") as client:
        if raises:
            with pytest.raises(httpx.HTTPStatusError):
                burst.posted(client, "/", {})
        else:
            burst.posted(client, "/", {})


def test_what_a_failed_burst_leaves_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "LOOK_SECONDS", 0)
    seen = iter([["active", "error"], ["cancelling", "error"], ["cancelled", "error"]])
    stopped: list[str] = []
    burst.end(stopped.append, ["a", "b"], lambda: next(seen))
    assert sorted(stopped) == ["a", "b"]
    assert list(seen) == []


class Airflow20:
    """A system whose counters move as those of 20 steps would."""

    slots = 20

    def __init__(self) -> None:
        self.megabytes = iter([TaskMemory(100, 2), TaskMemory(300, 42)])
        self.processor = iter([10.0, 11.0])

    def task_megabytes(self) -> TaskMemory:
        return next(self.megabytes)

    def api_processor_seconds(self) -> float:
        return next(self.processor)

    def api_log_size(self) -> int:
        return 17

    def task_requests(self, position: int) -> dict[str, int]:
        assert position == 17
        return {"/execution/store/ti/x": 30, "/execution/task-instances/x/heartbeat": 10}


def _observed(system: Any, calls: list[str]) -> dict[str, float]:
    return running.observed(
        system,
        20,
        start=lambda: calls.append("start"),
        are_running=lambda: True,
        stop=lambda: calls.append("stop"),
        have_ended=lambda: True,
    )


def test_what_running_steps_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(running, "SETTLE_SECONDS", 0)
    calls: list[str] = []
    found = _observed(Airflow20(), calls)
    assert found["megabytes_per_airflow_processes"] == 10.0
    assert found["megabytes_per_workload_supervisor"] == 2.0
    assert found["api_processor_milliseconds_per_task_request"] == 25.0
    assert found["task_requests_per_second"] == pytest.approx(found["state_store_polls_per_second"] * 4 / 3)
    assert calls == ["start", "stop"]


def test_what_was_started_is_stopped_when_measuring_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(running, "WINDOW_SECONDS", 0)
    system, calls = Airflow20(), []
    system.processor = iter([])
    with pytest.raises(StopIteration):
        _observed(system, calls)
    assert calls == ["start", "stop"]
    system.slots = 8
    with pytest.raises(RuntimeError, match="need Postgres"):
        _observed(system, calls)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory and time of a process are in /proc")
def test_numbers_of_a_process() -> None:
    own = os.getpid()
    assert 0 < proc.shared_bytes(own) <= proc.resident_bytes(own) * 1.1
    assert proc.processor_seconds(own) == pytest.approx(sum(os.times()[:2]), abs=5)
    assert proc.family_seconds(own) == pytest.approx(sum(os.times()[:4]), abs=5)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert (proc.shared_bytes(ended.pid), proc.resident_bytes(ended.pid), proc.processor_seconds(ended.pid)) == (
        0,
        0,
        0,
    )


def test_requests_in_the_access_log(tmp_path: Path) -> None:
    line = (
        "2026-12-02T01:00:56.516818Z [info     ] request finished               [http.access] "
        "client_addr=127.0.0.1:60752 duration_us=136 loc=http_access_log.py:130 method=GET "
        "path={} query= status_code=200\n"
    )
    log = tmp_path / "api-server.log"
    log.write_text(line.format("/execution/early"))
    position = log.stat().st_size
    with log.open("a") as file:
        file.writelines(map(line.format, ["/execution/a", "/execution/a", "/apis/jobs", "/execution/b"]))
    assert proc.requests_below("/execution/", log, position) == {"/execution/a": 2, "/execution/b": 1}


def test_the_stock_dag_is_a_dag_file(tmp_path: Path) -> None:
    stock.write(tmp_path / "home" / "dags")
    (file,) = (tmp_path / "home" / "dags").iterdir()
    compile(file.read_text(), str(file), "exec")
    assert "{{ dag_run.conf['command'] }}" in file.read_text()


class PausableJobs:
    """A server of jobs, and of their tasks, at which everything asked for has happened by the next look.

    :param ends: whether a job ends by itself when it is asked to pause
    """

    def __init__(self, *, ends: bool = False) -> None:
        self.ends = ends
        #: By name: status, and when it has last counted; None while it counts.
        self.jobs: dict[str, tuple[str, float | None]] = {}
        self.profiles: set[str] = set()
        self.deleted: list[str] = []

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with httpx.Client(transport=httpx.MockTransport(self.answer), base_url="http://bench") as client:
            yield client

    def answer(self, request: httpx.Request) -> httpx.Response:
        path, _, name = request.url.path.partition(pausing.PATH)
        if path:
            return httpx.Response(200, json=self.of_airflow(request))
        name, _, verb = name.strip("/").partition("/")
        if request.method == "DELETE":
            self.deleted.append(name)
            return httpx.Response(204 if name in self.jobs else 404)
        if request.method == "POST":
            self.do(verb, name, request)
            return httpx.Response(200)
        status, until = self.jobs[name]
        lines = [{"message": f"7 {until or time.time()}"}]
        return httpx.Response(200, json={"status": status} if verb == "status" else {"data": lines})

    def of_airflow(self, request: httpx.Request) -> dict[str, Any]:
        if request.url.path == "/api/v2/dags/~/dagRuns":
            name = request.url.params["run_id_pattern"].rstrip("%")
            return {"dag_runs": [{"dag_id": "d", "dag_run_id": f"{name}~1"}]}
        name = request.url.path.split("/")[6].partition("~")[0]
        states = {"active": "running", "paused": "awaiting_input", "cancelled": "failed", "completed": "success"}
        return {"state": states[self.jobs[name][0]]}

    def do(self, verb: str, name: str, request: httpx.Request) -> None:
        if not verb:
            body = json.loads(request.content)
            name = body["name"]
            self.profiles.add(body["platform_spec"]["steps"][0]["executor"]["profile"])
        elif name not in self.jobs:
            return
        statuses = {"pause": "completed" if self.ends else "paused", "cancel": "cancelled"}
        status = statuses.get(verb, "active")
        self.jobs[name] = status, None if status == "active" else time.time() + 0.5


@pytest.mark.parametrize(("name", "profile"), [("pause_by_stop", "default"), ("pause_by_freeze", "freezing")])
def test_a_pause_beside_a_cancel_and_a_new_job(name: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "REST_SECONDS", 0)
    server: Any = PausableJobs()
    found = MEASUREMENTS[name].sample(server)
    assert isinstance(found, dict)
    assert set(found) == {
        "pause_to_paused_seconds",
        "pause_to_standing_still_seconds",
        "pause_to_slot_free_seconds",
        "resume_to_active_seconds",
        "resume_to_next_line_seconds",
        "cancel_to_cancelled_seconds",
        "cancel_to_slot_free_seconds",
        "create_anew_to_active_seconds",
        "create_anew_to_next_line_seconds",
        "pause_over_cancel_to_slot_free",
        "resume_over_create_anew_to_next_line",
    }
    assert found["pause_to_standing_still_seconds"] >= 0.5
    ratio = found["pause_to_slot_free_seconds"] / found["cancel_to_slot_free_seconds"]
    assert found["pause_over_cancel_to_slot_free"] == ratio
    assert server.profiles == {profile}
    assert sorted(server.deleted) == sorted(server.jobs)
    assert len(server.jobs) == 2


def test_a_job_that_ends_by_itself_is_no_pause_and_is_removed() -> None:
    server: Any = PausableJobs(ends=True)
    with pytest.raises(RuntimeError, match=r"job pause-.* ended as completed before it was paused"):
        pausing.by_stop(server)
    assert set(server.jobs) < set(server.deleted)


def test_what_does_not_happen_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "LIMIT_SECONDS", 0)
    calls: list[str] = []
    looks: dict[str, pausing.Look] = {"a": lambda _: True, "b": lambda _: False, "c": lambda _: False}
    with pytest.raises(RuntimeError, match="after 0 s there was still no b and no c"):
        pausing.seconds_until(lambda: calls.append("asked"), looks)
    assert calls == ["asked"]


def test_the_profiles_of_the_bench(tmp_path: Path) -> None:
    file = tmp_path / "nemo.yaml"
    file.write_text(json.dumps(pausing.profiles(tmp_path)))
    found = load_profiles(file, environ={}, probe=None)
    modes = {name: found.resolve("subprocess", name) for name in ("default", pausing.FREEZING)}
    assert {name: profile and profile.config.pause for name, profile in modes.items()} == {
        "default": "stop",
        "freezing": "freeze",
    }


def test_what_is_paused_counts_and_says_when() -> None:
    before = time.time()
    with subprocess.Popen([sys.executable, "-S", "-c", pausing._COUNTING], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        lines = [one.stdout.readline().split() for _ in range(2)]
        one.kill()
    assert [number for number, _ in lines] == ["0", "1"]
    assert before <= float(lines[0][1]) < float(lines[1][1]) <= time.time()


@pytest.mark.parametrize("name", ["docker_1_step", "docker_3_steps", "docker_100000_lines"])
def test_without_an_engine_a_measurement_is_skipped_with_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "ours", lonely)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setattr(engine, "lacking", lambda: "No engine answers.")
    monkeypatch.delenv("NEMO_BENCH_UPSTREAM", raising=False)
    numbers = bench._report([MEASUREMENTS[name]], runs=1)["measurements"][name]
    assert numbers == {"ours": {"skipped": "No engine answers."}, "upstream": None}
    with engine.prepared():
        pass


def test_an_engine_that_is_not_there_and_a_busybox_that_is_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise BackendError("No answer from the Docker engine.")

    missing: list[str | None] = ["Install busybox-static.", None]
    monkeypatch.setattr(engines, "missing", lambda name: missing.pop(0))
    monkeypatch.setattr(engine, "connect", lambda connection_id: SimpleNamespace(client=refuse))
    assert engine.lacking.__wrapped__() == "Install busybox-static."
    assert engine.lacking.__wrapped__() == "No answer from the Docker engine."


def test_the_engine_keeps_nothing_of_the_bench() -> None:
    engines.require("docker")
    with contextlib.closing(connect(None).client()) as client:
        with engine.prepared():
            assert engine.seconds_of_plain_runs(2) > 0
            volume = {"Type": "volume", "Target": "/left"}
            body = {"Image": engine.IMAGE, "Cmd": ["true"], "HostConfig": {"Mounts": [volume]}}
            left = client.create_container_from_config(body)["Id"]
            name = client.inspect_container(left)["Mounts"][0]["Name"]
        assert not client.images(engine.IMAGE)
        assert not client.containers(all=True, filters={"id": left})
        assert name not in [each["Name"] for each in client.volumes()["Volumes"]]


def test_a_container_beside_plain_docker_and_the_stock_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = PausableJobs()
    monkeypatch.setattr(engine, "require", lambda: None)
    monkeypatch.setattr(engine, "seconds_of_plain_runs", lambda times: 0.5 * times)
    monkeypatch.setattr(docker_steps, "seconds_to_complete", lambda system, count, executor: 2.0 * count)
    monkeypatch.setattr(stock_runs, "seconds_to_succeed", lambda client, name, dag, command: 12.0)
    assert docker_steps.three_steps(server) == {
        "job_seconds": 6.0,
        "docker_run_seconds": 1.5,
        "stock_operator_seconds": 12.0,
        "job_over_docker_run": 4.0,
        "stock_operator_over_docker_run": 8.0,
        "job_over_stock_operator": 0.5,
    }


def test_the_profile_of_containers(tmp_path: Path) -> None:
    file = tmp_path / "nemo.yaml"
    file.write_text(json.dumps(systems._profiles(tmp_path)))
    found = load_profiles(file, environ={}, probe=None).resolve(engine.PROVIDER, engine.PROFILE)
    assert found is not None
    assert (found.backend, found.config.default_task_image) == ("docker", engine.IMAGE)


class StockAirflow:
    """The runs of a DAG that is known at the second look; its log has two pages, and ends with the second."""

    def __init__(self, state: str = "success") -> None:
        self.state = state
        self.asked: list[str] = []
        self.conf: dict[str, str] = {}
        self.known = False

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v2/dags/bench-docker-3")
        self.asked.append(f"{request.method} {path}")
        if path.endswith("/logs/1"):
            return self.log(request)
        if not path:
            self.known, known = True, self.known
            return httpx.Response(200 if known else 404)
        if request.method == "POST":
            self.conf = json.loads(request.content)["conf"]
        return httpx.Response(200, json={"state": self.state})

    def log(self, request: httpx.Request) -> httpx.Response:
        if request.headers["accept"] == "application/x-ndjson":
            return httpx.Response(200, text='{"event": "a"}\n{"event": "b"}\n{"event": "c"}\n')
        if "token" not in request.url.params:
            first = ["a", {"event": "b"}]
            return httpx.Response(200, json={"content": first, "continuation_token": "more"})
        return httpx.Response(200, json={"content": [{"event": "c"}], "continuation_token": None})

    def client(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self.answer), base_url="http://bench")


def test_a_run_of_the_stock_operator_and_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock_runs, "_LOOK_SECONDS", 0)
    airflow = StockAirflow()
    with airflow.client() as client:
        assert stock_runs.seconds_to_succeed(client, "r", "bench-docker-3", ["echo", "it's"]) >= 0
        assert json.loads(airflow.conf["command"]) == ["echo", "it's"]
        assert airflow.asked[:3] == ["GET ", "GET ", "POST /dagRuns"]
        assert airflow.asked[-1] == "DELETE /dagRuns/r"
        run = stock_runs.Run(client, "r", stock_docker.dag(3))
        assert [run.new_lines(), run.new_lines()] == [["a", "b"], ["c"]]
        assert run.all_lines() == ["a", "b", "c"]


def test_a_run_that_fails_is_no_number() -> None:
    airflow = StockAirflow("failed")
    with airflow.client() as client, pytest.raises(RuntimeError, match="run r of .* failed"):
        stock_runs.seconds_to_succeed(client, "r", "bench-docker-3", ["false"])
    assert airflow.asked[-1] == "DELETE /dagRuns/r"


def test_the_dags_of_the_stock_operator(tmp_path: Path) -> None:
    stock_docker.write(tmp_path / "dags", "an/image:1", "host")
    (file,) = (tmp_path / "dags").iterdir()
    compile(file.read_text(), str(file), "exec")
    assert "command=\"{{ dag_run.conf['command'] }}\"" in file.read_text()
    assert "for count in (1, 3):" in file.read_text()


@pytest.mark.skipif(shutil.which("awk") is None or not Path("/proc/uptime").exists(), reason="it is an awk's program")
def test_what_prints_100000_lines() -> None:
    before = lines._uptime()
    text = subprocess.run(lines.COMMAND, check=True, capture_output=True, text=True).stdout.splitlines()
    assert list(lines._numbers(text)) == list(range(1, 100_001))
    printed = lines._printed(text)
    assert before <= printed["first"] <= printed["middle"] <= printed["last"] <= lines._uptime()


class Flood:
    """What prints 100,000 lines, of which some are lost and some are there twice.

    :param lost: numbers of lines that cannot be read
    """

    def __init__(self, lost: set[int]) -> None:
        self.calls: list[str] = []
        self.ends = iter([False, False, True])
        self.newest = iter([[], ["something", "line 050001 of a log"], ["line 100000 of a log"]])
        self.lost = lost

    @contextlib.contextmanager
    def started(self, command: list[str]) -> Iterator[None]:
        self.began = lines._uptime()
        yield
        self.calls.append("removed")

    def has_ended(self) -> bool:
        return next(self.ends)

    def new_lines(self) -> list[str]:
        return next(self.newest)

    def all_lines(self) -> list[str]:
        at = {number: f"at {self.began - 1:.2f} " for number in lines.PROBES.values()}
        kept = [n for n in range(1, lines.LINES + 1) if n not in self.lost]
        return ["starting", *(f"line {n:06d} {at.get(n, '')}of a log" for n in [*kept, 7])]


def test_lines_that_are_lost_and_repeated_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_POLL_SECONDS", 0)
    flood = Flood(lost={8, 9})
    found = lines.left_alone(flood)
    assert found["lines_readable"] == 99_998
    assert found["lines_repeated"] == 1
    assert found["lines_out_of_order"] == 1
    assert 0 < found["lines_per_second"] <= 99_998 / 0.98
    assert flood.calls == ["removed"]
    unknown = lines.left_alone(Flood(lost={1}))
    assert unknown["lines_readable"] == 99_999
    assert "lines_per_second" not in unknown


def test_when_a_line_is_seen_and_that_one_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_LOOK_SECONDS", 0)
    found = lines.watched(Flood(lost={50_000}))
    assert set(found) == {"first_line_seen_after_seconds", "last_line_seen_after_seconds"}
    assert min(found.values()) >= 0.98


def test_ratios_of_what_can_be_compared() -> None:
    assert lines.side_by_side({"seconds": 1.0, "repeated": 0.0, "seen": 1.0}, {"seconds": 4.0, "repeated": 0.0}) == {
        "job_seconds": 1.0,
        "job_repeated": 0.0,
        "job_seen": 1.0,
        "stock_operator_seconds": 4.0,
        "stock_operator_repeated": 0.0,
        "job_over_stock_operator_seconds": 0.25,
    }


def test_the_lines_of_a_job_are_read_to_the_last_page() -> None:
    pages = {None: (["a", "b"], "next"), "next": (["c"], None)}
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {re.sub('.*/bench-[0-9a-f]+', '', request.url.path)}")
        if request.url.path.endswith("/status"):
            return httpx.Response(200, json={"status": "completed"})
        lines, cursor = pages[request.url.params.get("page_cursor")]
        return httpx.Response(200, json={"data": [{"message": line} for line in lines], "next_page": cursor})

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://bench") as client:
        job = lines.Job(client, engine.executor)
        assert job.has_ended()
        assert job.all_lines() == ["a", "b", "c"]
    assert asked == ["GET /status", "GET /logs", "GET /logs"]


def test_a_measurement_is_chosen_by_its_name_or_by_how_several_begin() -> None:
    assert [entry.name for entry in chosen(["docker_1_step"])] == ["docker_1_step"]
    assert {entry.name for entry in chosen(["kubernetes"])} == {
        "kubernetes_1_step",
        "kubernetes_100000_lines",
        "kubernetes_running_steps",
        "kubernetes_jobs_at_once",
    }
    with pytest.raises(ValueError, match="No measurement kube; there are "):
        chosen(["kube"])


def test_what_needs_more_slots_has_an_airflow_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int | None] = []

    @contextlib.contextmanager
    def ours(folder: Path, database: str | None, slots: int | None) -> Iterator[Lonely]:
        started.append(slots)
        yield Lonely()

    monkeypatch.setattr(systems, "ours", ours)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.delenv("NEMO_BENCH_UPSTREAM", raising=False)
    entries = [
        Measurement(name, lambda system: 1.0, runs=1, slots=slots)
        for name, slots in (("a", None), ("b", 50), ("c", None))
    ]
    assert list(bench._report(entries, runs=None)["measurements"]) == ["a", "b", "c"]
    assert started == [None, 50]


KUBERNETES = [name for name in MEASUREMENTS if name.startswith("kubernetes_")]


@pytest.mark.parametrize("name", KUBERNETES)
def test_without_a_cluster_a_measurement_is_skipped_with_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "ours", lonely)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setattr(cluster, "lacking", lambda: "No cluster answers.")
    monkeypatch.delenv("NEMO_BENCH_UPSTREAM", raising=False)
    numbers = bench._report([MEASUREMENTS[name]], runs=1)["measurements"][name]
    assert numbers == {"ours": {"skipped": "No cluster answers."}, "upstream": None}
    assert cluster.environment() == {}
    with cluster.prepared():
        pass


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "missing", lambda name: f"Set the variable of {name}.")
    assert cluster.lacking.__wrapped__() == "Set the variable of kubernetes."
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    assert "apache-airflow-providers-cncf-kubernetes" in str(cluster.lacking.__wrapped__())


def test_the_cluster_keeps_nothing_of_the_bench() -> None:
    engines.require("kubernetes")
    with cluster.prepared():
        assert cluster.seconds_of_plain_jobs(2, ["true"]) > 0
        assert cluster.running_pods() == 0
        failed = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
        with pytest.raises(RuntimeError, match="a plain Job failed"):
            cluster._completed(failed)
        connection = json.loads(cluster.environment()["AIRFLOW_CONN_BENCH_KUBERNETES"])
        assert connection["extra"]["namespace"] == cluster.NAMESPACE
    assert not kubernetes.kubectl("get", "namespace", cluster.NAMESPACE, "--ignore-not-found")


def test_an_api_that_cannot_tell_yet_is_asked_again() -> None:
    complete = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    told = [
        {"type": "ERROR", "object": {"message": "Too large resource version"}},
        {"type": "ADDED", "object": complete},
    ]

    class Lagging:
        @contextlib.contextmanager
        def watched(self, *_: object) -> Iterator[Any]:
            line = json.dumps(told.pop(0)).encode() + b"\n"
            yield SimpleNamespace(stream=lambda *_, **__: iter([line[:9], line[9:]]))

    api: Any = Lagging()
    cluster._wait(api, "batch", 1)
    assert not told


def test_a_pod_beside_a_plain_job_and_the_stock_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = PausableJobs()
    seconds = {stock_kubernetes.DAG: 16.0, stock_kubernetes.QUICK_DAG: 8.0}
    monkeypatch.setattr(cluster, "require", lambda: None)
    monkeypatch.setattr(cluster, "seconds_of_plain_jobs", lambda count, command: 2.0)
    monkeypatch.setattr(kubernetes_steps, "seconds_to_complete", lambda system, count, executor: 4.0)
    monkeypatch.setattr(stock_runs, "seconds_to_succeed", lambda client, name, dag, command: seconds[dag])
    assert kubernetes_steps.one_step(server) == {
        "job_seconds": 4.0,
        "plain_job_seconds": 2.0,
        "stock_operator_seconds": 16.0,
        "quick_stock_operator_seconds": 8.0,
        "job_over_plain_job": 2.0,
        "stock_operator_over_plain_job": 8.0,
        "job_over_stock_operator": 0.25,
        "job_over_quick_stock_operator": 0.5,
    }


def test_the_profile_of_pods_stands_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "lacking", lambda: None)
    file = tmp_path / "nemo.yaml"
    file.write_text(json.dumps(systems._profiles(tmp_path)))
    profiles = load_profiles(file, environ={}, probe=None)
    found = profiles.resolve(cluster.PROVIDER, cluster.PROFILE)
    assert found is not None
    assert (found.backend, found.config.namespace) == ("kubernetes_job", cluster.NAMESPACE)
    assert profiles.resolve(engine.PROVIDER, engine.PROFILE)
    assert profiles.resolve("subprocess", "default")


def test_the_dags_of_the_stock_operator_of_pods(tmp_path: Path) -> None:
    stock_kubernetes.write(tmp_path / "dags", "an/image:1", "space", "way")
    (file,) = (tmp_path / "dags").iterdir()
    compile(file.read_text(), str(file), "exec")
    assert "cmds=\"{{ dag_run.conf['command'] }}\"" in file.read_text()
    assert "for name, poll in (('bench-kubernetes', {}), ('bench-kubernetes-quick', {\"job_poll_interval\": 1})):" in (
        file.read_text()
    )


class Counters:
    """A system that has spent five seconds more at each look."""

    slots = 2

    def __init__(self) -> None:
        self.spent = 0.0

    def task_processor_seconds(self) -> float:
        self.spent += 5
        return self.spent

    api_processor_seconds = task_processor_seconds


def test_many_pods_at_once_and_those_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_burst, "LOOK_SECONDS", 0)
    monkeypatch.setattr(cluster, "running_pods", iter([1, 2, 0]).__next__)
    looks = iter([["active"], ["active", "active"], ["completed", "active"], *[["completed", "error"]] * 2])
    calls: list[str] = []
    system: Any = Counters()
    found = kubernetes_burst._measured(
        system,
        ["a", "b"],
        start=lambda name: calls.append(f"start {name}"),
        look=lambda: next(looks),
        stop=lambda name: calls.append(f"stop {name}"),
        remove=lambda name: calls.append(f"remove {name}"),
    )
    assert found.pop("seconds") >= 0
    assert found == {
        "errors": 1,
        "most_pods_running": 2,
        "airflow_processor_seconds": 10.0,
        "api_processor_seconds": 10.0,
    }
    assert sorted(calls) == ["remove a", "remove b", "start a", "start b"]


def test_pods_that_do_not_end_count_as_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_burst, "LIMIT_SECONDS", 0)
    looks = iter([*[["completed", "active", "active"]] * 2, ["completed", "cancelled", "cancelled"]])
    stopped: list[str] = []
    system: Any = Counters()
    ignore: Any = lambda name: None  # noqa: E731 - it is no more than that
    found = kubernetes_burst._measured(
        system, ["a", "b", "c"], start=ignore, look=lambda: next(looks), stop=stopped.append, remove=ignore
    )
    assert found["errors"] == 2
    assert sorted(stopped) == ["a", "b", "c"]


def test_many_pods_need_as_many_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "require", lambda: None)
    system: Any = Counters()
    with pytest.raises(Skipped, match="50 jobs at once need Postgres: this Airflow runs 2 tasks at once"):
        kubernetes_burst.jobs_at_once(system)


def test_what_running_pods_cost_has_no_supervisor() -> None:
    found = {"megabytes_per_airflow_processes": 9.0, "megabytes_per_workload_supervisor": 0.0}
    assert kubernetes_running._of_airflow(found) == {"megabytes_per_airflow_processes": 9.0}


def test_a_line_that_an_operator_marks_with_its_container() -> None:
    text = ["[base] line 000001 at 7.25 of a log", "[base] line 000002 of a log", "Pod has line 3"]
    assert list(lines._numbers(text)) == [1, 2]
    assert lines._printed(text) == {"first": 7.25}
