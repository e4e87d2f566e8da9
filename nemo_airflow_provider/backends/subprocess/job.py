"""The directory of a job: made for one run, kept while something is started in it, and removed as a whole."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nemo_airflow_provider.backends.subprocess.layout import JOB_STORAGE, Place, claim_lock
from nemo_airflow_provider.backends.subprocess.reach import below, open_directory, opened
from nemo_airflow_provider.backends.subprocess.removal import remove
from nemo_airflow_provider.backends.subprocess.workdir import open_work
from nemo_airflow_provider.errors import BackendError

_REMOVAL_POLL_SECONDS = 0.02
_ASIDE = ".removed-"  # no name of a job's directory begins with a dot, and none of a step's
#: A link to nothing, as the system makes it in one step: its text is the id of the installation whose job this is.
_OWNER = ".installation"


@contextmanager
def kept(place: Place, installation: str, seconds: float) -> Iterator[None]:
    """The job's directory and its storage, made, and safe from `remove_job` meanwhile.

    :param installation: whose job it is
    :raises BackendError: the directory is not ours alone, or has been in removal for so long
    :raises OSError: it cannot be made
    """
    deadline = time.monotonic() + seconds
    with ExitStack() as held:
        workspace = held.enter_context(opened(place.root, place.workspace, create=True))
        _must_be_ours(place, workspace)
        while not _keep(held, workspace, place.run, installation):
            if time.monotonic() >= deadline:
                raise BackendError(f"{place.job} has been in removal for {seconds:.0f} seconds; it is tried again.")
            time.sleep(_REMOVAL_POLL_SECONDS)
        yield


def remove_job(place: Place) -> bool:
    """Remove everything of a run: work directories and job storage.

    :param place: only its job counts
    :return: False when a workload of it still runs or is being started, or another process is just removing it;
        then nothing is removed
    :raises OSError: something cannot be removed
    """
    aside = _ASIDE + place.run
    with ExitStack() as held:
        try:
            workspace = held.enter_context(opened(place.root, place.workspace))
        except FileNotFoundError:
            return True
        _unlink(workspace, place.run)
        try:
            job = open_directory(workspace, place.run)
        except FileNotFoundError:
            return _discard(workspace, aside)
        held.callback(os.close, job)
        ours = claim_lock(job, 0) and _is_linked(workspace, place.run, job)
        # Nobody but who holds the lock sets aside; what is there was left by a removal that was killed.
        if not (ours and _discard(workspace, aside) and all(_idle(held, found) for found in workloads(place))):
            return False
        os.rename(place.run, aside, src_dir_fd=workspace, dst_dir_fd=workspace)
        remove(workspace, aside)
    return True


def of_installation(root: Path, installation: str) -> Iterator[Place]:
    """The jobs of an installation; removals that were killed are finished on the way."""
    for workspace in _below(root):
        with suppress(FileNotFoundError), opened(root, workspace) as directory:
            if os.fstat(directory).st_uid != os.geteuid():
                continue
            for name in _directories(directory):
                if name.startswith(_ASIDE):
                    with suppress(OSError):  # what cannot be removed now is tried again by the next
                        _discard(directory, name)
                elif _owner(directory, name) == installation:
                    yield Place(root, workspace, name, "", "")


def _below(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _owner(workspace: int, run: str) -> str | None:
    try:
        with below(workspace, run) as job:
            return os.readlink(_OWNER, dir_fd=job)
    except OSError:  # nobody's, or gone
        return None


def workloads(place: Place, step: str | None = None) -> list[Place]:
    """The work directories of a place's job, or of one step of it."""
    found = []
    with suppress(FileNotFoundError), opened(place.root, place.workspace, place.run) as job:
        for name in _directories(job) if step is None else [step]:
            if name == JOB_STORAGE:
                continue
            with suppress(FileNotFoundError), below(job, name) as directory:
                found += [replace(place, step=name, task=task) for task in sorted(_directories(directory))]
    return found


def remove_work(place: Place) -> None:
    """Remove a locked work directory, and its step's directory once that is empty."""
    with opened(place.root, place.workspace, place.run) as job:
        with below(job, place.step) as step:
            remove(step, place.task)
        with suppress(OSError):  # other starts are there
            os.rmdir(place.step, dir_fd=job)


def remove_impostor(place: Place) -> None:
    """Remove what a workload put in the place of its work directory."""
    with suppress(FileNotFoundError), opened(place.root, place.workspace, place.run, place.step) as step:
        _unlink(step, place.task)


def _directories(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _keep(held: ExitStack, workspace: int, run: str, installation: str) -> bool:
    """Make the directory and its storage and share its lock for as long as `held` lives; False while it is removed."""
    with ExitStack() as stack:
        try:
            job = stack.enter_context(below(workspace, run, create=True))
        except FileNotFoundError:
            return False
        if not claim_lock(job, 0, shared=True) or not _is_linked(workspace, run, job):
            return False
        with suppress(FileExistsError):
            os.mkdir(JOB_STORAGE, 0o700, dir_fd=job)
        with suppress(FileExistsError):
            if installation:
                os.symlink(installation, _OWNER, dir_fd=job)
        held.push(stack.pop_all())
    return True


def _idle(held: ExitStack, place: Place) -> bool:
    """Lock a work directory against starts for as long as `held` lives; False while a workload runs in it."""
    try:
        work = held.enter_context(open_work(place))
    except FileNotFoundError:
        return True
    return work.settle()


def _must_be_ours(place: Place, workspace: int) -> None:
    """Other users of the host could plant links under a directory of theirs, above all in /tmp."""
    above, inside = os.stat(place.root), os.fstat(workspace)
    ours = above.st_uid in (0, os.geteuid()) and inside.st_uid == os.geteuid()
    if not ours or inside.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BackendError(
            f"The working directory {place.root} or its directory {place.workspace} belongs to another user, or others "
            f"may write to its directory {place.workspace}; set working_directory of the subprocess profile to a "
            "directory of the worker's own user."
        )


def _is_linked(parent: int, name: str, directory: int) -> bool:
    """Whether an open directory still has this name."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(directory))


def _discard(workspace: int, name: str) -> bool:
    """Remove a directory that was set aside; False when another process is at it."""
    with suppress(FileNotFoundError), below(workspace, name) as directory:
        if not claim_lock(directory, 0):
            return False
        remove(workspace, name)
    return True


def _unlink(parent: int, name: str) -> None:
    """Remove what a workload put in the place of a directory; a directory stays."""
    with suppress(FileNotFoundError, IsADirectoryError, PermissionError):  # Linux and POSIX disagree about the error
        os.unlink(name, dir_fd=parent)
