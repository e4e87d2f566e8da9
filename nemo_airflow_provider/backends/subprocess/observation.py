"""What the files of a work directory mean."""

from __future__ import annotations

import socket
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.subprocess.workdir import WorkDirectory


def details(work: WorkDirectory) -> dict[str, Any]:
    """`status_details` of a workload, as far as they are known."""
    place = work.place
    known: dict[str, Any] = {
        "subprocess_work_dir": str(place.work),
        "subprocess_persistent_storage_path": str(place.storage),
    }
    started, ended = work.started(), work.ended()
    if started is not None:
        known |= {"pid": started.pid, "pgid": started.pid}
    if ended is not None:
        known["exit_code"] = ended.exit_code
    return known


def look(work: WorkDirectory) -> Observation:
    """The order of the questions matters: the start is noted before the lock on the directory is let go, the end
    before the supervisor goes. As long as that lives the end is its to tell, whatever became of its files."""
    started = None
    if work.ended() is None:
        if work.being_started():
            return Observation(Phase.PENDING, message="Subprocess is being started", details=details(work))
        started = work.started()
        if work.supervised():
            return Observation(Phase.RUNNING, details=details(work))
    ended = work.ended()
    if ended is not None:
        return Observation(Phase.ENDED, exit_code=ended.exit_code, stopped=ended.stopped, details=details(work))
    return Observation(Phase.ABSENT) if started is None else _lost(work)


def _lost(work: WorkDirectory) -> Observation:
    work.kill_leftovers()
    message = (
        f"The subprocess on {socket.gethostname()} is gone and left no exit code: its supervisor was killed, "
        "the workload replaced files of its supervisor, or the host was restarted."
    )
    return Observation(Phase.LOST, message=message, details=details(work), fault="platform")
