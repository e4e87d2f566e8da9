"""The directory of a job: made for one run, handed from a deleted run to its successor, and removed as a whole."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nemo_airflow_provider.backends.subprocess.layout import (
    JOB_STORAGE,
    RUN_FILE,
    Place,
    claim_lock,
    opened,
    read_record,
    write_file,
)
from nemo_airflow_provider.backends.subprocess.removal import remove
from nemo_airflow_provider.backends.subprocess.workdir import open_work
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names

_LOCK_SECONDS = 30.0
_STOP_SECONDS = 5.0
_STOP_POLL_SECONDS = 0.02
_ASIDE = ".removed-"


def claim(place: Place, run_key: str) -> None:
    """Make the job's directory and its storage, for this run only.

    What a deleted run of the same run id left is moved away first, its processes are killed and its files removed.

    :raises BackendError: the directory is not ours alone, or belongs to a newer run
    :raises OSError: it cannot be made
    """
    with opened(place.root, place.workspace, create=True) as workspace:
        _must_be_ours(place.root, workspace)
        _lock(workspace, place)
        owner = _owner(place, workspace)
        if owner is not None and owner != run_key:
            _must_be_older(owner, run_key, place)
            _set_aside(workspace, place.run, owner)
        with opened(place.root, place.workspace, place.run, create=True) as job:
            if owner != run_key:
                write_file(job, RUN_FILE, json.dumps({"run_key": run_key}).encode())
            with suppress(FileExistsError):
                os.mkdir(JOB_STORAGE, 0o700, dir_fd=job)
        left = _asides(workspace, owner) if owner is not None and owner != run_key else []
    for name in left:
        _discard(replace(place, run=name))


def is_owned(place: Place, run_key: str) -> bool:
    """Whether the job's directory is this run's still."""
    with opened(place.root, place.workspace) as workspace:
        return _owner(place, workspace) == run_key


def remove_job(place: Place, run_key: str) -> bool:
    """Remove everything of a run: work directories and job storage.

    :param place: only its job counts
    :return: False when a workload of it still runs, or is being started; then nothing is removed
    :raises OSError: something cannot be removed
    """
    with ExitStack() as held:
        try:
            workspace = held.enter_context(opened(place.root, place.workspace))
        except FileNotFoundError:
            return True
        _lock(workspace, place)
        if _owner(place, workspace) == run_key:
            if not all(_idle(held, found) for found in workloads(place)):
                return False
            _set_aside(workspace, place.run, run_key)
        left = _asides(workspace, run_key)
    return all([_discard(replace(place, run=name)) for name in left])


def workloads(place: Place, step: str | None = None) -> list[Place]:
    """The work directories of a place's job, or of one step of it."""
    found = []
    with _absent_is_empty(), opened(place.root, place.workspace, place.run) as job:
        for name in _directories(job) if step is None else [step]:
            if name == JOB_STORAGE:
                continue
            with _absent_is_empty(), opened(place.root, place.workspace, place.run, name) as directory:
                found += [replace(place, step=name, task=task) for task in sorted(_directories(directory))]
    return found


def _directories(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


@contextmanager
def _absent_is_empty() -> Iterator[None]:
    """What was removed meanwhile, or is a file or a link, holds nothing of ours."""
    with suppress(FileNotFoundError, NotADirectoryError):
        yield


def _idle(held: ExitStack, place: Place) -> bool:
    """Lock a work directory against starts for as long as `held` lives; False while a workload runs in it."""
    try:
        work = held.enter_context(open_work(place))
    except (FileNotFoundError, NotADirectoryError):
        return True
    # The first look keeps the lock, which others read as "being started", off a running workload.
    if work.running() or not work.lock(0) or work.running():
        return False
    if work.ended() is None:
        work.kill_leftovers()
    return True


def _must_be_ours(root: Path, workspace: int) -> None:
    """Other users of the host could plant links under a directory of theirs, above all in /tmp."""
    above, below = os.stat(root), os.fstat(workspace)
    ours = above.st_uid in (0, os.geteuid()) and below.st_uid == os.geteuid()
    if not ours or below.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BackendError(
            f"The working directory {root} or a workspace's directory in it belongs to another user, or others may "
            "write there; set working_directory of the subprocess profile to a directory of the worker's own user."
        )


def _must_be_older(owner: str, run_key: str, place: Place) -> None:
    try:
        newer = names.run_after_of(owner) > names.run_after_of(run_key)
    except ValueError:  # not made by us
        newer = False
    if newer:
        raise BackendError(
            f"{place.job} belongs to a newer run of the same run id; this run was deleted and starts nothing more."
        )


def _lock(workspace: int, place: Place) -> None:
    if not claim_lock(workspace, _LOCK_SECONDS):
        raise BackendError(
            f"Another process has held {place.root / place.workspace} for {_LOCK_SECONDS:.0f} seconds; "
            "the step is tried again."
        )


def _owner(place: Place, workspace: int) -> str | None:
    """Run key of the run that the job's directory was made for."""
    try:
        job = os.open(place.run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=workspace)
    except FileNotFoundError:
        return None
    try:
        record = read_record(job, RUN_FILE)
    finally:
        os.close(job)
    owner = record.get("run_key") if record else None
    return owner if isinstance(owner, str) and "/" not in owner else None


def _set_aside(workspace: int, run: str, run_key: str) -> None:
    os.rename(run, f"{_ASIDE}{run_key}-{time.time_ns()}", src_dir_fd=workspace, dst_dir_fd=workspace)


def _asides(workspace: int, run_key: str) -> list[str]:
    return [name for name in os.listdir(workspace) if name.startswith(f"{_ASIDE}{run_key}-")]


def _discard(aside: Place) -> bool:
    """Kill what runs in a job directory that was set aside, and remove it; False when something does not die."""
    try:
        with (
            opened(aside.root, aside.workspace) as workspace,
            opened(aside.root, aside.workspace, aside.run) as job,
        ):
            if not claim_lock(job, 0):
                return True  # another process is at it
            deadline = time.monotonic() + _STOP_SECONDS
            if not all([_killed(place, deadline) for place in workloads(aside)]):
                return False
            remove(workspace, aside.run)
    except FileNotFoundError:
        pass  # removed by another process
    return True


def _killed(place: Place, deadline: float) -> bool:
    try:
        with open_work(place) as work:
            while work.supervised():
                work.ask_to_stop(0)
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_STOP_POLL_SECONDS)
            if work.ended() is None:
                work.kill_leftovers()
    except FileNotFoundError:
        pass  # removed by another process
    return True
