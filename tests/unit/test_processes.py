from __future__ import annotations

import os
import subprocess
import sys

from nemo_airflow_provider import processes
from tests.waiting import wait_until


def test_what_is_seen_of_a_process() -> None:
    seen = processes.look(os.getpid())
    assert seen is not None
    assert (seen.pid, seen.parent, seen.group) == (os.getpid(), os.getppid(), os.getpgrp())
    assert (seen.session, seen.ended) == (os.getsid(0), False)
    assert processes.living()[os.getpid()].born == seen.born


def test_a_process_that_has_ended_does_not_live_though_nobody_has_collected_it() -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: processes.look(child.pid) is None)
    assert child.pid not in processes.living()
    assert child.wait() == 0


def test_a_title_is_what_a_process_calls_itself() -> None:
    program = "import setproctitle; setproctitle.setproctitle('at <rest>'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert processes.title(child.pid) == "at <rest>"
        child.kill()
    assert processes.title(child.pid) == ""


def test_descendants_are_children_and_theirs() -> None:
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 60; true'; true"]) as shell:
        wait_until(lambda: len(processes.descendants(shell.pid)) == 2)
        orphans = set(processes.descendants(shell.pid))
        assert shell.pid in processes.descendants()
        assert shell.pid not in processes.descendants(shell.pid)
        shell.kill()
        assert processes.end(lambda: orphans & set(processes.living())) == []


def test_end_says_what_it_could_not_end() -> None:
    assert processes.end(lambda: []) == []
    dead = 2**22 + 1  # above the largest process id
    assert processes.end(lambda: [dead], timeout_seconds=0.1) == [dead]


ADOPT = """
import os, subprocess, time
from nemo_airflow_provider import processes
from tests.waiting import wait_until
assert processes.adopt_orphans()
own = subprocess.Popen(["sh", "-c", "exit 3"])
subprocess.run(["sh", "-c", "sleep 0.2 & exit 0"])
orphans = set(processes.descendants()) - {own.pid}
assert len(orphans) == 1, orphans
while set(processes.descendants()):
    time.sleep(0.01)
processes.reap_orphans([own.pid])
assert not any(os.path.exists(f"/proc/{pid}") for pid in orphans)
assert own.wait() == 3
"""


def test_orphans_are_adopted_and_collected_and_own_children_left_to_their_starter() -> None:
    subprocess.run([sys.executable, "-c", ADOPT], check=True)
