"""Processes of this host, as `/proc` shows them. Standard library only: the supervisor starts without packages.

Where there is no `/proc` every question is answered with "nobody", so nothing is ever signalled by mistake.
"""

from __future__ import annotations

import os
from contextlib import suppress

_GONE = (b"Z", b"X")


class Process:
    """One living process; `born` is its start in clock ticks since boot, which tells reused numbers apart."""

    __slots__ = ("born", "group", "parent", "pid", "session")

    def __init__(self, pid: int, parent: int, group: int, session: int, born: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.born = born


def look(pid: int) -> Process | None:
    """The living process of that number; None when there is none, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold blanks and brackets itself.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in _GONE:
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def everybody() -> list[Process]:
    """Every living process that this process may see."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [process for name in names if name.isdigit() and (process := look(int(name)))]


def descendants(ancestor: int) -> list[int]:
    """Living children of `ancestor`, their children, and so on."""
    children: dict[int, list[int]] = {}
    for process in everybody():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    open_ends = [ancestor]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def leftovers(leader: int, born: int, mark: bytes) -> list[int]:
    """What lives on of a workload whose supervisor is gone.

    These are the members of its session, unless the leader's number belongs to somebody else by now, and whoever
    still carries the workload's own environment.

    :param leader: pid of the main process, which is also its group and session
    :param born: the leader's `Process.born`
    :param mark: `NAME=value` that only this workload's environment has
    """
    now = look(leader)
    ours = now is None or now.born == born
    return [
        process.pid
        for process in everybody()
        if process.born >= born
        and ((ours and leader in (process.session, process.group)) or mark in _environment(process.pid))
    ]


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # gone meanwhile, or another user's
        return []


def boot_id() -> str:
    """Names the time since this host was started: the kernel's own id, else when that was, else nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        with os.popen("sysctl -n kern.boottime 2>/dev/null") as answer:
            return answer.read().strip()


def send(pid: int, signal: int) -> None:
    """Signal a process (a negative `pid`: a group); one that is gone or not ours to signal is left alone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal)
