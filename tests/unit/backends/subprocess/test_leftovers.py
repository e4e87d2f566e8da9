"""Who is recognised as part of a workload after its supervisor was killed, and who never is."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Phase
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until

QUIET = "</dev/null >/dev/null 2>&1"
#: Commands that start `$away`, a process that says its number, in a session of its own.
ESCAPES = {
    "environment": f"cd /; setsid $away {QUIET}",
    "directory": f"env -i setsid $away {QUIET}",
    "directory below": f"mkdir d; cd d; env -i setsid $away {QUIET}",
    "standard output": "cd /; env -i setsid $away",
    "standard error": "cd /; env -i setsid $away </dev/null >/dev/null",
    "file": "exec 3> file; cd /; env -i setsid $away >&3 2>&3",
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_who_escaped_from_session_and_environment_is_killed(host: Host, tmp_path: Path, escape: str) -> None:
    script = tmp_path / "away"
    number = tmp_path / "number"
    script.write_text(f"#!/bin/sh\necho $$ > {number}.new; mv {number}.new {number}; exec sleep 60\n")
    script.chmod(0o755)
    host.shell(f"away={script}; {ESCAPES[escape]} & sleep 60")
    wait_until(number.exists)
    pid = int(number.read_text())
    host.kill_supervisor()
    assert lives(pid)
    try:
        assert host.backend.observe(key()).phase is Phase.LOST
        wait_until(lambda: not lives(pid))
    finally:
        if lives(pid):
            os.kill(pid, 9)


def test_spectators_and_neighbours_are_left_alone(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.shell("echo x > file; sleep 60")
    wait_until(lambda: (host.work() / "file").exists())
    neighbour = host.work().with_name(f"{key().task}0")
    neighbour.mkdir()
    reader = host.work() / "file"
    strangers = [
        subprocess.Popen(["tail", "-f", reader, host.control() / "output"], stdout=subprocess.DEVNULL),
        subprocess.Popen(["sleep", "60"], cwd=neighbour),
        subprocess.Popen(["sleep", "60"], cwd=host.root, env={"PATH": os.environ["PATH"], "WORK": str(host.work())}),
    ]
    monkeypatch.chdir(host.work())  # this process itself
    try:
        host.kill_supervisor()
        with reader.open("a"):
            assert host.backend.observe(key()).phase is Phase.LOST
        assert [stranger.poll() for stranger in strangers] == [None] * 3
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()


class Shell:
    """A process in a directory, in a session of its own, with a controlling terminal."""

    def __init__(self, directory: Path, **env: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(directory)
                os.execve("/bin/sleep", ["sleep", "60"], env)
            finally:
                os._exit(127)
        wait_until(lambda: Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n")

    def end(self) -> None:
        if lives(self.pid):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


def test_a_shell_at_a_terminal_is_spared_unless_it_has_our_environment(host: Host) -> None:
    host.shell("echo up; sleep 60")
    wait_until(lambda: host.output_file())
    mine = Shell(host.work())
    ours = Shell(host.work(), NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH=str(host.work() / "scratch"))
    try:
        host.kill_supervisor()
        assert host.backend.observe(key()).phase is Phase.LOST
        assert lives(mine.pid)
        assert not lives(ours.pid)
        host.backend.cleanup(key())
        assert lives(mine.pid)
    finally:
        mine.end()
        ours.end()


def test_of_other_users_nobody_is_killed_for_being_there(host: Host) -> None:
    host.shell("sleep 60")
    for directory in (host.work(), *host.work().parents[:8]):
        if directory.is_relative_to("/tmp") and directory != Path("/tmp"):
            directory.chmod(0o755)
    try:
        stranger = subprocess.Popen(["sleep", "60"], cwd=host.work(), user=65534, group=65534, extra_groups=[])
    except PermissionError:
        host.backend.stop(key(), 0)
        pytest.skip("only root can be another user")
    try:
        host.kill_supervisor()
        assert host.backend.observe(key()).phase is Phase.LOST
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
