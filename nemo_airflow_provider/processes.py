"""Processes of this host, as `/proc` shows them: find, signal, adopt, collect.

Standard library only, and little of it: the supervisor of a subprocess step starts with this module within milliseconds
and without any package. Where there is no `/proc` every question is answered with "nobody", so nothing is ever
signalled by mistake.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

try:
    import ctypes

    # Loaded here and not after a fork, where loading a library could wait for a lock that nobody holds any more.
    _prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux
except (ImportError, OSError):  # a Python without it
    _prctl = None

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the supervisor's start-up time
    from collections.abc import Callable, Iterable, Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_PAUSE_SECONDS = 0.05


class Process:
    """One process.

    :param ended: it only waits to be collected by its parent
    :param stopped: by a signal, until another one lets it go on
    :param blocked: in the kernel, which it leaves for no signal but to heed it: for a disk, or for a child of `vfork`
    :param terminal: whether it has a controlling one
    :param born: its start in clock ticks since boot, which tells reused numbers apart
    """

    __slots__ = ("blocked", "born", "ended", "group", "parent", "pid", "session", "stopped", "terminal")

    def __init__(
        self, pid: int, state: bytes, parent: int, group: int, session: int, terminal: bool, born: int
    ) -> None:
        self.pid = pid
        self.ended = state in (b"Z", b"X")
        self.stopped = state in (b"T", b"t")
        self.blocked = state == b"D"
        self.parent = parent
        self.group = group
        self.session = session
        self.terminal = terminal
        self.born = born


def look(pid: int) -> Process | None:
    """The living process of that number; None when there is none, or it has ended."""
    process = _read(pid)
    return None if process is None or process.ended else process


def living() -> dict[int, Process]:
    """Every living process that this process may see, by number."""
    return {process.pid: process for process in _everybody() if not process.ended}


def descendants(ancestor: int | None = None) -> list[int]:
    """Living children of `ancestor` (default: this process), their children, and so on."""
    children: dict[int, list[int]] = {}
    for process in living().values():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    open_ends = [os.getpid() if ancestor is None else ancestor]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def offspring(ancestor: int) -> Iterator[Process]:
    """As `descendants`, one by one: whoever stops each as it comes finds all of its children next.

    It reads no more of `/proc` than it must, so that a short-lived process is caught. Parents come before children.
    """
    open_ends = [ancestor]
    while open_ends:
        for pid in _children(open_ends.pop()):
            if process := look(pid):
                yield process
                open_ends.append(pid)


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        found = []
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
        return found
    except OSError:  # gone; or a kernel that does not have that file
        return [process.pid for process in living().values() if process.parent == pid]


def _everybody() -> Iterator[Process]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit() and (process := _read(int(name))):
            yield process


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold blanks and brackets itself.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    parent, group, session = map(int, fields[1:4])
    return Process(pid, fields[0], parent, group, session, fields[4] != b"0", int(fields[19]))


def title(pid: int) -> str:
    """Its command line, or what it has put in its place; empty for one that is gone or not ours to see."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").strip().decode(errors="replace")
    except OSError:
        return ""


def boot_id() -> str:
    """Names the time since this host was started: the kernel's own id, else when that was, else nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        with os.popen("sysctl -n kern.boottime 2>/dev/null") as answer:
            return answer.read().strip()


def send(pid: int, signum: int) -> None:
    """Signal a process (a negative `pid`: a group); one that is gone or not ours to signal is left alone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def end(find: Callable[[], Iterable[int]], timeout_seconds: float = 3) -> list[int]:
    """SIGKILL what `find` finds until it finds nothing: a dying process may still start one.

    :return: what is left after the time; normally nothing
    """
    deadline = time.monotonic() + timeout_seconds
    while (left := list(find())) and time.monotonic() < deadline:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_SECONDS)
    return left


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends, so that it can be found.

    :return: whether the system can do that (Linux)
    """
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def reap_orphans(own: Iterable[int | None]) -> None:
    """Collect ended children we did not start, those in `own` excepted: their `Popen` wants the exit code."""
    keep = set(own)
    for process in _everybody():
        if process.ended and process.parent == os.getpid() and process.pid not in keep:
            with suppress(ChildProcessError):  # collected by somebody else
                os.waitpid(process.pid, os.WNOHANG)


def end_with_parent(signum: int) -> None:
    """Get this signal when the thread that started this process ends (Linux). Safe between fork and exec."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
