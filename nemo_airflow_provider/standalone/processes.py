"""Child processes and their descendants: start, look, end. Knows nothing of Airflow."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")

# Loaded here and not after the fork, where loading a library could wait for a lock nobody holds any more.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Component:
    """One long-lived program in a session of its own, its output in a file.

    The session is how its descendants are recognised after it is gone: Airflow's task processes leave its
    process group, and its process titles overwrite what `/proc` would say about their environment.

    :param name: for people
    :param command: program and arguments
    :param environment: complete environment of the process
    :param log: file its output is appended to
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.command = list(command)
        self.environment = dict(environment)
        self.log = log
        self.sessions: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._shown = 0

    def start(self) -> None:
        """Start it, or start it again after its end. On Linux it also ends when the *calling thread* does."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.sessions.add(self._process.pid)

    @property
    def pid(self) -> int | None:
        """Process id of the last start; None before the first."""
        return self._process.pid if self._process else None

    def exit_code(self) -> int | None:
        """Exit code of the last start, negative for a signal; None while it runs or was never started."""
        return self._process.poll() if self._process else None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, signum: int) -> None:
        """Signal the process alone; nothing happens when it has ended."""
        if self._process is not None:
            self._process.send_signal(signum)

    def send_to_all(self, signum: int) -> None:
        """Signal the process and every descendant that stayed in one of its sessions."""
        if self._process is not None and not _PROC.is_dir():
            _send(-self._process.pid, signum)  # its process group is all that can be known here
        for pid in self.members():
            _send(pid, signum)

    def members(self) -> list[int]:
        """The living processes of its sessions, its own included; empty where there is no `/proc`."""
        return [pid for pid, entry in living().items() if entry.session in self.sessions]

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it ended in time."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        try:
            with self.log.open("rb") as output:
                output.seek(max(0, output.seek(0, os.SEEK_END) - 65536))
                text = output.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def new_output(self) -> list[str]:
        """Whole lines written since the last call."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as output:
            output.seek(self._shown)
            data = output.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._shown += len(whole)
        return whole.decode(errors="replace").splitlines()


class ProcessEntry(NamedTuple):
    """A process as `/proc/<pid>/stat` shows it."""

    state: str
    parent: int
    session: int


def process_table() -> dict[int, ProcessEntry]:
    """Every process this machine shows us, by id; empty where there is no `/proc`."""
    table: dict[int, ProcessEntry] = {}
    for folder in _PROC.glob("[0-9]*") if _PROC.is_dir() else ():
        try:
            text = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue  # it ended while we were looking
        # The program name stands in brackets and may contain anything, so fields count from the last bracket.
        state, parent, _group, session, *_ = text.rpartition(")")[2].split()
        table[int(folder.name)] = ProcessEntry(state, int(parent), int(session))
    return table


def living() -> dict[int, ProcessEntry]:
    """The process table without those that have ended and only wait to be collected."""
    return {pid: entry for pid, entry in process_table().items() if entry.state not in "ZX"}


def descendants(root: int | None = None) -> list[int]:
    """Living children of `root` (default: this process), their children and so on."""
    children: dict[int, list[int]] = {}
    for pid, entry in living().items():
        children.setdefault(entry.parent, []).append(pid)
    found: list[int] = []
    wanted = [os.getpid() if root is None else root]
    while wanted:
        below = children.get(wanted.pop(), [])
        found += below
        wanted += below
    return found


def adopt_orphans() -> bool:
    """Make orphaned descendants children of this process instead of init's, so that they can be found.

    :return: whether the system can do that (Linux)
    """
    return _libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def reap_orphans(own: Iterable[int | None]) -> None:
    """Collect ended children we did not start, those in `own` excepted: their `Popen` wants the exit code."""
    keep = set(own)
    for pid, entry in process_table().items():
        if entry.state == "Z" and entry.parent == os.getpid() and pid not in keep:
            with suppress(ChildProcessError):  # collected by somebody else
                os.waitpid(pid, os.WNOHANG)


def end(find: Callable[[], Iterable[int]], timeout_seconds: float = 3) -> list[int]:
    """SIGKILL what `find` finds until it finds nothing: a dying process may still start one.

    :return: what is left after the time; normally nothing
    """
    deadline = time.monotonic() + timeout_seconds
    while (left := list(find())) and time.monotonic() < deadline:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)
    return left


def _send(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError):  # it ended by itself, which is what we wanted
        os.kill(pid, signum)


def _end_with_parent() -> None:
    # SIGTERM rather than SIGKILL: the scheduler then ends its idle workers, which would else wait for ever.
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
