"""The command runs at most once, whoever is killed and whenever."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.errors import StartError
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until


def submit(host: Host, start: int, word: Connection) -> None:
    """In a process of its own: submit when the word comes, answer with the command's number."""
    os.setsid()
    word.recv()
    script = "echo run >> $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/runs; sleep 0.3"
    word.send(host.shell(script, key(start=start))["pid"])


class Submitter:
    """Another worker process, ready to submit."""

    def __init__(self, host: Host, start: int = 0) -> None:
        self.word, other = multiprocessing.Pipe()
        # Forked, since a new interpreter takes a second to import everything.
        self.process = multiprocessing.get_context("fork").Process(target=submit, args=(host, start, other))
        self.process.start()
        other.close()

    def kill(self) -> None:
        """With its whole process group, as a service manager does."""
        assert self.process.pid is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.word.close()


def runs(host: Host) -> int:
    file = host.job() / "job-storage" / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_ten_processes_submit_at_once(host: Host) -> None:
    submitters = [Submitter(host) for _ in range(10)]
    for submitter in submitters:
        submitter.word.send("go")
    answers = {submitter.word.recv() for submitter in submitters}
    for submitter in submitters:
        submitter.process.join()
    host.end()
    assert runs(host) == 1
    assert answers == {host.record("started")["pid"]}


def test_submitters_killed_at_any_moment(host: Host) -> None:
    delays = [0.0, 0.002, 0.005, 0.008, 0.011, 0.014, 0.017, 0.02, 0.025, 0.03, 0.04, 0.05]
    for start, delay in enumerate(delays):
        submitter = Submitter(host, start)
        submitter.word.send("go")
        time.sleep(delay)
        wait_until(lambda submitter=submitter: os.getsid(submitter.process.pid) == submitter.process.pid)
        submitter.kill()
        host.shell("echo run >> $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/runs", key(start=start))
    for start in range(len(delays)):
        assert host.end(key(start=start)).exit_code == 0
    assert runs(host) == len(delays)


def test_a_second_submit_adopts_what_runs_and_what_has_ended(host: Host) -> None:
    first = host.shell("echo once; sleep 0.2")
    assert host.shell("echo twice") == first
    host.end()
    assert host.shell("echo thrice") == {**first, "exit_code": 0}
    assert host.output() == b"once\n"


def test_a_second_submit_while_the_first_fails_gets_the_error_too(host: Host) -> None:
    def attempt(_: int) -> str:
        with pytest.raises(StartError) as caught:
            host.run(["/no/such/program"])
        return str(caught.value)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(attempt, range(12)))) == 1
    assert host.backend.observe(key()).phase is Phase.ABSENT


def test_a_directory_whose_supervisor_never_came_counts_as_absent(host: Host) -> None:
    host.shell("exit 7")
    host.end()
    for name in ("started", "exit.json", "alive"):
        (host.control() / name).unlink()
    assert host.backend.observe(key()).phase is Phase.ABSENT
    host.backend.stop(key(), 1)
    host.shell("exit 8")
    assert host.end().exit_code == 8


def test_a_dead_supervisor_takes_the_command_with_it_and_is_told(host: Host) -> None:
    details = host.shell("sleep 60 & setsid sleep 60 & wait")
    wait_until(lambda: len(host.processes()) == 4)
    host.kill_supervisor()
    wait_until(lambda: not lives(details["pid"]))
    seen = host.backend.observe(key())
    assert (seen.phase, seen.exit_code, seen.fault) == (Phase.LOST, None, "platform")
    assert "left no exit code" in (seen.message or "")
    assert host.processes() == []
    assert host.shell("echo again")["pid"] == details["pid"]
    assert host.backend.observe(key()).phase is Phase.LOST


def test_a_stop_of_a_lost_workload_kills_what_is_left(host: Host) -> None:
    host.shell("sleep 60 & wait")
    wait_until(lambda: len(host.processes()) == 3)
    host.kill_supervisor()
    host.backend.stop(key(), 30)
    assert host.processes() == []


def test_a_reused_process_number_is_left_alone(host: Host) -> None:
    host.shell("exit 0")
    host.end()
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        started = host.record("started")
        # Times are in ticks of 10 ms, and the stranger may have been born in the same one.
        record = started | {"pid": stranger.pid, "born": started["born"] - 1}
        (host.control() / "exit.json").unlink()
        (host.control() / "started").write_text(json.dumps(record))
        assert host.backend.observe(key()).phase is Phase.LOST
        assert stranger.poll() is None
        born = processes.look(stranger.pid)
        assert born is not None
        (host.control() / "started").write_text(json.dumps(record | {"born": born.born, "boot": "another boot"}))
        assert host.backend.observe(key()).phase is Phase.LOST
        assert stranger.poll() is None
        (host.control() / "started").write_text(json.dumps(record | {"born": born.born}))
        assert host.backend.observe(key()).phase is Phase.LOST
        assert stranger.wait(5) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


def test_the_worker_may_die_with_its_group(host: Host) -> None:
    submitter = Submitter(host)
    submitter.word.send("go")
    assert submitter.word.recv() == host.record("started")["pid"]
    submitter.kill()
    assert host.end().exit_code == 0


def test_identity_is_this_host_and_boot(host: Host, tmp_path: Path) -> None:
    identity = host.backend.identity()
    assert identity == Host.make(tmp_path / "other").backend.identity()
    assert identity.startswith(os.uname().nodename)
    assert processes.boot_id() in identity
