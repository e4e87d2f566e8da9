"""Where a container finds its storage and its configuration, which a step may say (job-spec §5): pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemo_airflow_provider.backends.container import environment
from nemo_airflow_provider.errors import StartError

CONFIG_DIRECTORY = "/var/run/scratch/config"
CONFIG_NAME = "job_step_config.json"
TASK_DIRECTORY = "/var/run/scratch/task"

_ADDITIONAL = "mount_path of storage.additional_volume_mounts of the step's profile"
#: What every engine puts into a container itself.
_ENGINES = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
#: Below it there may be anything.
_SHARED_MEMORY = "/dev/shm/"
#: Of one name in a path (the kernel's `NAME_MAX`), and of a path: the engine puts directories of its own before it.
_NAME_BYTES, _PATH_BYTES = 255, 3072


@dataclass(frozen=True, slots=True)
class Places:
    """Absolute paths in the container.

    :param job_storage: None: the step does not ask for the job's storage
    """

    scratch: str = TASK_DIRECTORY
    config_directory: str = CONFIG_DIRECTORY
    config_file: str = f"{CONFIG_DIRECTORY}/{CONFIG_NAME}"
    job_storage: str | None = None

    def variables(self) -> dict[str, str]:
        """The variables by which the step is told; that of job storage is its own."""
        return {
            environment.CONFIG_FILE: self.config_file,
            environment.CONFIG_DIRECTORY: self.config_directory,
            environment.SCRATCH: self.scratch,
        }


def places_of(step: Mapping[str, str], additional: Sequence[str], taken: Sequence[str] = ()) -> Places:
    """Where a step has what it is given.

    :param step: its environment
    :param additional: paths of the mounts of its profile
    :param taken: what this engine puts into a container beside what every engine does
    :raises StartError: there can be nothing, or two things
    """
    directory = step.get(environment.CONFIG_DIRECTORY) or CONFIG_DIRECTORY
    found = Places(
        scratch=step.get(environment.SCRATCH) or TASK_DIRECTORY,
        config_directory=directory,
        config_file=step.get(environment.CONFIG_FILE) or posixpath.join(directory, CONFIG_NAME),
        job_storage=step.get(environment.JOB_STORAGE),
    )
    own = {environment.SCRATCH: found.scratch, environment.CONFIG_DIRECTORY: found.config_directory}
    if found.job_storage is not None:
        own[environment.JOB_STORAGE] = found.job_storage
    mounts = [*own.items(), *((_ADDITIONAL, path) for path in additional)]
    for whose, path in [*mounts, (environment.CONFIG_FILE, found.config_file)]:
        _check_form(whose, path)
        if whose != _ADDITIONAL:
            _check_place(whose, path, taken)
    _check_distinct(mounts)
    _check_file(found.config_file, mounts)
    return found


def _check_form(whose: str, path: str) -> None:
    if not path.startswith("/"):
        raise _wrong(whose, path, "it must be an absolute path")
    if posixpath.normpath(path).strip("/") == "":
        raise _wrong(whose, path, "it must not be the root of the container")
    if ".." in path.split("/"):
        raise _wrong(whose, path, "it must not hold '..'")
    if not path.isprintable():
        raise _wrong(whose, path, "it must not hold a newline or another character that cannot be printed")
    if len(path.encode()) > _PATH_BYTES or any(len(name.encode()) > _NAME_BYTES for name in path.split("/")):
        limits = f"a name in it has at most {_NAME_BYTES} bytes, and all of it {_PATH_BYTES}"
        raise _wrong(whose, f"{path[:40]}…", limits)


def _check_place(whose: str, path: str, taken: Sequence[str]) -> None:
    for each in (*_ENGINES, *taken):
        if _is_within(path, each) and not _plain(path).startswith(_SHARED_MEMORY):
            raise _wrong(whose, path, f"{each} is the engine's own")
    for each in taken:
        if _plain(path) == posixpath.dirname(each):
            raise _wrong(whose, path, f"the engine's own {each} must be found there")


def _check_distinct(mounts: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for whose, path in mounts:
        if (other := seen.get(_plain(path))) is not None:
            raise _wrong(whose, path, f"that is the {other} too")
        seen[_plain(path)] = whose


def _check_file(file: str, mounts: Sequence[tuple[str, str]]) -> None:
    """What is copied in replaces what is there, whoever else sees it; and memory is not there yet."""
    if file.endswith("/"):
        raise _wrong(environment.CONFIG_FILE, file, "it is a file, and must not end in '/'")
    for whose, path in mounts:
        if _is_within(path, file):
            raise _wrong(environment.CONFIG_FILE, file, f"it is a file, and {whose} is {path}")
    around = [(len(_plain(path)), whose, path) for whose, path in mounts if _is_within(file, path)]
    _, whose, path = max(around, default=(0, "", ""))
    if whose in (environment.JOB_STORAGE, _ADDITIONAL):
        raise _wrong(environment.CONFIG_FILE, file, f"the step's configuration is not put into {path}, the {whose}")


def _is_within(path: str, directory: str) -> bool:
    """Whether a path is the directory or lies in it."""
    path, directory = _plain(path), _plain(directory)
    return path == directory or path.startswith(f"{directory}/")


def _plain(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _wrong(whose: str, path: str, rule: str) -> StartError:
    return StartError(f"{whose} is {path!r}: {rule}.")
