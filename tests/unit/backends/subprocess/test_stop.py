"""Stops, time limits, and workloads that do not want to go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer
from unittest.mock import Mock

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.subprocess import backend
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def wait_for_output(host: Host) -> None:
    wait_until(lambda: (host.control() / "output").stat().st_size)


def test_a_workload_may_end_in_its_own_way(host: Host) -> None:
    host.shell("trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
    wait_for_output(host)
    host.backend.stop(key(), 60)
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (3, "asked")
    assert host.output(stream="stdout") == b"ready\nsaved\n"


def test_a_stop_returns_at_once_and_the_kill_comes_after_the_grace(host: Host) -> None:
    host.shell(STUBBORN)
    wait_for_output(host)
    begin = time.monotonic()
    host.backend.stop(key(), 1)
    assert host.backend.observe(key()).phase is Phase.RUNNING
    seen = host.end()
    assert time.monotonic() - begin > 0.95
    assert (seen.exit_code, seen.stopped) == (-signal.SIGKILL, "asked")


def test_the_shorter_grace_wins(host: Host) -> None:
    host.shell(STUBBORN)
    wait_for_output(host)
    begin = time.monotonic()
    for grace in (300, 0.2, 200):
        host.backend.stop(key(), grace)
    host.end()
    assert time.monotonic() - begin < 100


def test_the_caller_of_a_stop_may_die_right_after(host: Host) -> None:
    host.shell(STUBBORN)
    wait_for_output(host)
    script = (
        "import os, signal, sys\n"
        "from tests.unit.backends.subprocess.host import Host, key\n"
        "from pathlib import Path\n"
        "Host.make(Path(sys.argv[1])).backend.stop(key(), 0.2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(host.root)])
    assert ended.returncode == -signal.SIGKILL
    assert host.end().stopped == "asked"


def test_a_stopped_process_hears_the_stop(host: Host) -> None:
    details = host.shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")
    wait_for_output(host)
    os.killpg(details["pgid"], signal.SIGSTOP)
    host.backend.stop(key(), 60)
    assert host.end().exit_code == 9


def test_a_stop_of_something_gone_does_nothing(host: Host) -> None:
    host.backend.stop(key(), 1)
    host.shell("exit 2")
    host.end()
    host.backend.stop(key(), 1)
    seen = host.backend.observe(key())
    assert (seen.exit_code, seen.stopped) == (2, None)


def test_a_signal_to_the_supervisor_is_a_stop_that_nobody_asked_for(host: Host) -> None:
    host.shell("sleep 60")
    os.kill(host.supervisor(), signal.SIGTERM)
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (-signal.SIGTERM, "signalled")


def test_nonsense_in_the_fifo_is_ignored(host: Host) -> None:
    host.shell("trap 'sleep 0.3; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    wait_for_output(host)
    with (host.control() / "stop").open("wb") as fifo:
        fifo.write(b"now please \xff\n")
    host.backend.stop(key(), 30)  # read after the nonsense, or with it
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (5, "asked")


TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def grow(depth):
    for _ in range(3):
        if os.fork() == 0:
            if depth % 2:
                os.setsid()
            if depth:
                grow(depth - 1)
            time.sleep(120)
            os._exit(0)
grow(3)
sys.stdout.write('grown'); sys.stdout.flush()
time.sleep(120)
"""


def test_a_whole_tree_dies(host: Host) -> None:
    host.python(TREE)
    wait_for_output(host)
    wait_until(lambda: len(host.processes()) > 100)
    host.backend.stop(key(), 0)
    host.end()
    assert host.processes() == []


RABBITS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
deadline = time.monotonic() + 120  # a test that was killed leaves none of them for ever
burrow = os.open(BURROW, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for _ in range(10):
    if os.fork() == 0:
        while time.monotonic() < deadline:  # the child lives on in a session of its own, the parent goes
            time.sleep(0.02)
            os.write(burrow, b'.')
            if os.fork():
                os._exit(0)
            os.setsid()
        os._exit(0)
time.sleep(60)
"""


def test_processes_that_flee_by_forking_die_too(host: Host, tmp_path: Path) -> None:
    burrow = tmp_path / "burrow"
    host.python(RABBITS.replace("BURROW", repr(str(burrow))))
    wait_until(lambda: burrow.exists() and burrow.stat().st_size > 50, 60)
    host.backend.stop(key(), 0)
    host.end()
    size = burrow.stat().st_size
    time.sleep(1)
    assert burrow.stat().st_size == size


def test_time_limit(tmp_path: Path) -> None:
    host = Host.make(tmp_path / "work", ttl_seconds_active=1, graceful_shutdown_timeout_seconds=60)
    begin = time.monotonic()
    host.shell("trap 'exit 6' TERM; while :; do sleep 0.02; done")
    seen = host.end()
    assert time.monotonic() - begin > 0.9
    assert (seen.exit_code, seen.stopped) == (6, "ttl")


def test_time_limit_then_kill(tmp_path: Path) -> None:
    host = Host.make(tmp_path / "work", ttl_seconds_active=1, graceful_shutdown_timeout_seconds=1)
    begin = time.monotonic()
    host.shell(STUBBORN)
    seen = host.end()
    assert time.monotonic() - begin > 1.9
    assert (seen.exit_code, seen.stopped) == (-signal.SIGKILL, "ttl")
    assert host.processes() == []


def test_wait_sees_the_end_soon(host: Host) -> None:
    details = host.shell("sleep 60")
    stamp: list[float] = []

    def kill() -> None:
        stamp.append(time.monotonic())
        os.kill(details["pid"], signal.SIGKILL)

    Timer(0.3, kill).start()
    host.backend.wait(key(), 60, Event())
    assert time.monotonic() - stamp[0] < 50  # usually 0.03; the rest is for a busy machine
    wait_until(lambda: not lives(details["pid"]))
    assert host.end().exit_code == -signal.SIGKILL


def test_wait_costs_next_to_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty looks a second at most."""
    look = Mock(wraps=backend._state)
    monkeypatch.setattr(backend, "_state", look)
    host.shell("sleep 60")
    host.backend.wait(key(), 2, Event())
    host.backend.stop(key(), 0)
    host.end()
    assert look.call_count <= 2 * 40 + 10  # more often at first


@pytest.mark.parametrize("submitted", [True, False])
def test_wait_is_bounded_and_can_be_woken(host: Host, submitted: bool) -> None:
    if submitted:
        host.shell("sleep 60")
    begin = time.monotonic()
    host.backend.wait(key(), 0.2, Event())
    assert 0.15 < time.monotonic() - begin < 20
    wake = Event()
    Timer(0.1, wake.set).start()
    host.backend.wait(key(), 60, wake)
    assert time.monotonic() - begin < 50
    host.backend.stop(key(), 0)
    if submitted:
        host.end()
