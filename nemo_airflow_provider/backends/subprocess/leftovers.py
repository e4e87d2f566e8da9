"""What lives on of a workload whose supervisor is gone."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.subprocess.control import CONTROL
from nemo_airflow_provider.backends.subprocess.records import Started


@dataclass(frozen=True, slots=True)
class Traces:
    """What tells the processes of one workload from all others.

    :param mark: `NAME=value` that only this workload's environment has
    :param work: its work directory as `/proc` names it
    :param started: its main process and its pipes, where they are known
    """

    mark: bytes
    work: str
    started: Started | None


def leftovers(traces: Traces) -> list[int]:
    """Who belongs to the workload: the members of its session or group, unless that number is somebody else's by now;
    whoever carries its environment; and, of our own user and without a terminal, whoever is in its work directory, or
    can write to a file there or to a pipe of the workload. Never this process, nor one it descends from.
    """
    table = processes.living()
    spared = _lineage(table)
    born = (traces.started.born if traces.started else None) or 0
    return [
        process.pid
        for process in table.values()
        if process.pid not in spared
        and process.born >= born
        and (_is_member(process, traces.started, table) or _bears(process, traces))
    ]


def _lineage(table: dict[int, processes.Process]) -> set[int]:
    found: set[int] = set()
    pid = os.getpid()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].parent
    return found


def _is_member(process: processes.Process, started: Started | None, table: dict[int, processes.Process]) -> bool:
    if started is None or started.pid not in (process.session, process.group):
        return False
    leader = table.get(started.pid)
    return leader is None or leader.born == started.born


def _bears(process: processes.Process, traces: Traces) -> bool:
    base = f"/proc/{process.pid}"
    try:
        with open(f"{base}/environ", "rb") as file:
            if traces.mark in file.read().split(b"\0"):
                return True
        if os.stat(base).st_uid != os.geteuid() or process.terminal:  # a shell of a person who looks around
            return False
        return _is_in(os.readlink(f"{base}/cwd"), traces.work) or _writes(f"{base}/fd", traces)
    except OSError:  # gone meanwhile, or not ours to look at
        return False


def _writes(folder: str, traces: Traces) -> bool:
    """Whether something of the workload is open there for writing. Whoever only reads is a spectator: another worker
    that stores the output, or a person. What is in the control directory is the supervisor's."""
    pipes = [f"pipe:[{number}]" for number in traces.started.pipes] if traces.started else []
    for number in os.listdir(folder):
        file = f"{folder}/{number}"
        try:
            target, mode = os.readlink(file), os.lstat(file).st_mode
        except FileNotFoundError:  # closed meanwhile
            continue
        inside = _is_in(target, traces.work) and not _is_in(target, f"{traces.work}/{CONTROL}")
        if mode & stat.S_IWUSR and (inside or target in pipes):
            return True
    return False


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
