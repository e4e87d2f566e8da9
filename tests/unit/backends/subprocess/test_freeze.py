"""Freezing: everybody stands still, also who is just being born, and timers do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import TypeVar

import pytest

from nemo_airflow_provider import processes
from tests import waiting
from tests.unit.backends.subprocess.host import Host, key

T = TypeVar("T")


def wait_until(look: Callable[[], T], seconds: float = 60, what: str = "it") -> T:
    """As `waiting.wait_until`: to stand still takes each process its share of the processor."""
    return waiting.wait_until(look, seconds, what, pause_seconds=0.02)


COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done"


def freeze(host: Host) -> None:
    host.backend.freeze(key())
    wait_until(lambda: host.backend.observe(key()).frozen, what="everybody to stand still")


def family(host: Host) -> dict[int, bool]:
    """The workload's processes, and whether each stands still."""
    return {process.pid: process.stopped or process.blocked for process in processes.offspring(host.supervisor())}


def stands_still(host: Host) -> bool:
    """Whether the workload's processes are the same for a while, and none of them runs."""
    members = family(host)
    time.sleep(0.1)
    return bool(members) and all(members.values()) and family(host) == members


@pytest.fixture
def frozen(host: Host) -> Iterator[Host]:
    """A host whose workload is ended after the test."""
    yield host
    host.backend.stop(key(), 0)
    wait_until(lambda: not host.processes())


def test_other_sessions_and_orphans_stand_still_too(frozen: Host) -> None:
    frozen.shell(f"(setsid sh -c '{COUNT}' &) ; {COUNT}")
    wait_until(lambda: frozen.output_file().count(b"5\n") >= 2)
    freeze(frozen)
    members = family(frozen)
    assert len(members) >= 2 and all(members.values())
    assert not processes.living()[frozen.supervisor()].stopped
    size = len(frozen.output_file())
    time.sleep(0.2)
    assert len(frozen.output_file()) == size
    frozen.backend.thaw(key())
    wait_until(lambda: len(frozen.output_file()) > size)
    assert not frozen.backend.observe(key()).frozen


FORKS = """
import os, sys, time
os.setpgid(0, 0)
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    if os.fork():
        time.sleep(0.01)
        os._exit(0)
    os.setsid()
"""


def test_a_chain_of_short_lived_children_is_caught(frozen: Host) -> None:
    """Each starts the next, in a session of its own, and ends."""
    frozen.python(f"import os, time\nif os.fork():\n    time.sleep(600)\n{FORKS}")
    wait_until(lambda: len(family(frozen)) >= 2)
    for _ in range(5):
        freeze(frozen)
        # On a busy host one may be begun between two looks; the next look catches it.
        wait_until(lambda: stands_still(frozen), what="the newest of the chain to stand still")
        frozen.backend.thaw(key())
        wait_until(lambda: not all(family(frozen).values()))


def test_who_was_stopped_before_stays_so(frozen: Host) -> None:
    frozen.shell("sleep 600 & kill -STOP $!; echo $!; while :; do sleep 0.01; done")
    told = next(chunk for chunk in frozen.backend.read_logs(key(), None, Event()) if chunk)
    stopped = int(told.data)
    wait_until(lambda: family(frozen)[stopped])
    freeze(frozen)
    assert all(family(frozen).values())
    frozen.backend.thaw(key())
    wait_until(lambda: not frozen.backend.observe(key()).frozen)
    wait_until(lambda: not all(family(frozen).values()))
    assert family(frozen)[stopped]


def test_somebody_elses_continue_is_taken_back(frozen: Host) -> None:
    details = frozen.shell(COUNT)
    wait_until(lambda: frozen.output_file())
    freeze(frozen)
    os.killpg(details["pgid"], signal.SIGCONT)
    wait_until(lambda: all(family(frozen).values()))


def test_the_active_limit_stands_still(host: Host) -> None:
    limited = Host.make(host.root, ttl_seconds_active=1)
    limited.shell(COUNT)
    wait_until(lambda: limited.output_file())
    freeze(limited)
    time.sleep(1.5)
    assert limited.backend.observe(key()).frozen
    limited.backend.thaw(key())
    wait_until(lambda: not limited.backend.observe(key()).frozen)
    assert limited.end().stopped == "ttl"


def test_a_main_process_that_is_killed_while_frozen_has_ended(host: Host) -> None:
    details = host.shell(COUNT)
    wait_until(lambda: host.output_file())
    freeze(host)
    os.kill(details["pid"], signal.SIGKILL)
    seen = host.end()
    assert (seen.exit_code, seen.stopped, seen.frozen) == (-signal.SIGKILL, None, False)
    wait_until(lambda: not host.processes())


def test_the_end_of_the_supervisor_is_that_of_a_frozen_workload(host: Host) -> None:
    host.shell(f"(setsid sh -c '{COUNT}' &) ; {COUNT}")
    wait_until(lambda: host.output_file())
    freeze(host)
    host.kill_supervisor()
    host.backend.observe(key())
    wait_until(lambda: not host.processes())
