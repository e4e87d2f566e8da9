"""What lives on of a workload whose supervisor is gone."""

from __future__ import annotations

from nemo_airflow_provider import processes


def leftovers(leader: int, born: int, mark: bytes) -> list[int]:
    """The members of its session, unless the leader's number belongs to somebody else by now, and whoever still
    carries the workload's own environment.

    :param leader: pid of the main process, which is also its group and session
    :param born: the leader's `Process.born`
    :param mark: `NAME=value` that only this workload's environment has
    """
    now = processes.look(leader)
    ours = now is None or now.born == born
    return [
        process.pid
        for process in processes.living().values()
        if process.born >= born
        and ((ours and leader in (process.session, process.group)) or mark in _environment(process.pid))
    ]


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # gone meanwhile, or another user's
        return []
