"""Where the files of a workload are, and how a directory is reached without being led astray by a link."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.subprocess.removal import DIRECTORY
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

JOB_STORAGE = "job-storage"
RUN_FILE = ".run.json"  # a dot: no name of a step begins so
WORKLOAD_FILE = "workload.json"
CONFIG_FILE = "job_step_config.json"

_LOCK_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one workload.

    :param root: the profile's `working_directory`
    """

    root: Path
    workspace: str
    run: str
    step: str
    task: str

    @property
    def job(self) -> Path:
        """The directory of the job: its steps, and the storage they share."""
        return self.root / self.workspace / self.run

    @property
    def storage(self) -> Path:
        """Storage shared by all steps and attempts of the job."""
        return self.job / JOB_STORAGE

    @property
    def work(self) -> Path:
        """The workload's own directory, where its command starts."""
        return self.job / self.step / self.task

    @property
    def scratch(self) -> Path:
        """The workload's ephemeral storage."""
        return self.work / "scratch"

    @property
    def config(self) -> Path:
        """The directory of the step's configuration."""
        return self.work / "config"


def place_of(root: Path, key: WorkloadKey) -> Place:
    """The paths of a key.

    :raises BackendError: a part of the key is no file name
    """
    return Place(
        root,
        component(key.workspace),
        component(key.run_id),
        step_directory(key.step),
        key.task,
    )


def component(name: str) -> str:
    """`name`, if it can be the name of a directory of a workspace, job or step; none begins with a dot.

    :raises BackendError: it cannot
    """
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(os.fsencode(name)) > 255:
        raise BackendError(f"{name!r} cannot be the name of a directory: subprocess steps cannot run under it")
    return name


def step_directory(step: str) -> str:
    """The name of a step's directory. A step may be called like the job's storage: `~` is in no step's name.

    :raises BackendError: see `component`
    """
    name = component(names.task_id_of(step))
    return f"{name}~" if name == JOB_STORAGE else name


@contextmanager
def opened(root: Path, *parts: str, create: bool = False) -> Iterator[int]:
    """The directory `root/part/part/…`, open; no part below `root` may be a link.

    :param create: make what is missing, with mode 0700
    :raises OSError: there is no such directory, or a part is no directory
    """
    if create:
        os.makedirs(root, mode=0o700, exist_ok=True)
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts:
            inner = _enter(directory, part, create)
            os.close(directory)
            directory = inner
        yield directory
    finally:
        os.close(directory)


@contextmanager
def below(directory: int, name: str, create: bool = False) -> Iterator[int]:
    """A directory inside an open one, open; see `opened`."""
    inner = _enter(directory, name, create)
    try:
        yield inner
    finally:
        os.close(inner)


def _enter(directory: int, name: str, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=directory)
    return os.open(name, DIRECTORY, dir_fd=directory)


def claim_lock(directory: int, seconds: float) -> bool:
    """Lock an open directory; it stays locked until the last copy of the descriptor is closed.

    :return: False when somebody else has held it for so long
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)


def is_locked(file: int) -> bool:
    """Whether another open file holds a lock on this one. Looks for microseconds, as a shared lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def open_file(directory: int, *path: str) -> int | None:
    """Open a file of ours for reading; None when it is not there, or the workload put something in its place.

    :param path: the file's name, after that of the directory it is in, if any; no part may be a link
    """
    *above, name = path
    try:
        with ExitStack() as stack:
            for part in above:
                directory = stack.enter_context(below(directory, part))
            return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def read_record(directory: int, *path: str) -> dict[str, Any] | None:
    """A JSON object of ours; None when the file is not there, or is no JSON object any more. See `open_file`."""
    file = open_file(directory, *path)
    if file is None:
        return None
    try:
        record = json.loads(b"".join(iter(lambda: os.read(file, 1 << 16), b"")))
    except (ValueError, IsADirectoryError):
        return None
    finally:
        os.close(file)
    return record if isinstance(record, dict) else None


def write_file(directory: int, name: str, data: bytes) -> None:
    """Write a file of mode 0600 that is there wholly or not at all."""
    new = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(new, flags, 0o600, dir_fd=directory), "wb") as stream:
        stream.write(data)
    os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
