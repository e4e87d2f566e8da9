"""What the files of a work directory mean."""

from __future__ import annotations

import os
import socket
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.subprocess.layout import Place
from nemo_airflow_provider.backends.subprocess.records import Ended, Started
from nemo_airflow_provider.backends.subprocess.workdir import WorkDirectory
from nemo_airflow_provider.errors import Fault


def details(work: WorkDirectory) -> dict[str, Any]:
    """`status_details` of a workload, as far as they are known."""
    return _details(work.place, work.started(), None if work.supervised() else work.ended())


def _details(place: Place, started: Started | None, ended: Ended | None) -> dict[str, Any]:
    known: dict[str, Any] = {
        "subprocess_work_dir": str(place.work),
        "subprocess_persistent_storage_path": str(place.storage),
    }
    if started is not None:
        known |= {"pid": started.pid, "pgid": started.pid}
    if ended is not None:
        known["exit_code"] = ended.exit_code
        if not ended.whole:
            known["log_error"] = f"The end of the output is lost: the disk of {place.root} stayed full"
    return known


def look(work: WorkDirectory) -> Observation:
    """The order of the questions matters: the start is noted before the lock on the directory is let go, the end
    before the supervisor goes. As long as that lives nobody else's word about the end counts."""
    if work.being_started():
        return Observation(Phase.PENDING, message="Subprocess is being started", details=details(work))
    started = work.started()
    if work.supervised():
        known = _details(work.place, started, None)
        return Observation(Phase.RUNNING, frozen=work.frozen(), message=_shortage(work), details=known)
    ended = work.ended()
    if ended is not None:
        known = _details(work.place, started, ended)
        return Observation(Phase.ENDED, exit_code=ended.exit_code, stopped=ended.stopped, details=known)
    return Observation(Phase.ABSENT) if started is None else _lost(work, started)


def _shortage(work: WorkDirectory) -> str | None:
    """What a workload may wait for: while nothing can be written its output stays in its pipe, and then so does it."""
    disk = os.fstatvfs(work.descriptor)
    # A file system without a fixed number of files says 0 of 0.
    if disk.f_bavail and (disk.f_favail or not disk.f_files):
        return None
    return f"The disk of {work.place.root} on {socket.gethostname()} is full: output waits for room"


def _lost(work: WorkDirectory, started: Started) -> Observation:
    work.kill_leftovers()
    fault: Fault = "user" if work.replaced(started) else "platform"
    here = f"The subprocess on {socket.gethostname()}"
    reasons = {
        "user": f"{here} was ended because it replaced files of its supervisor, which are in .nemo of its directory.",
        "platform": f"{here} is gone and left no exit code: its supervisor was killed or lost its files, or the host "
        "was restarted.",
    }
    known = _details(work.place, started, None)
    return Observation(Phase.LOST, message=reasons[fault], details=known, error={"fault": fault}, fault=fault)
