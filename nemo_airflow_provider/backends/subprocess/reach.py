"""Reaching directories and files of ours where a workload may have put something else. Standard library only.

A workload runs as our own user and can replace whatever it likes by links, FIFOs, sockets, devices or directories. So
nothing is followed, nothing is waited for, and what is not of the kind that we made counts as absent. Modes are the
workload's to change (`chmod -R a-w .`): the rights of an owner that are missing where we must go are given back.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the supervisor's start-up time
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: For files and FIFOs: neither follow a link, nor wait for somebody at the other end, nor get a terminal.
GENTLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: How the system says that a name is not there, or that something of another kind or owner is.
_ABSENT = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EISDIR,
    errno.ENXIO,
    errno.ENODEV,
    errno.EACCES,
    errno.ENAMETOOLONG,
)


def is_absent(error: OSError) -> bool:
    """Whether an error says that a file of ours is gone or was replaced; a disk that fails does not say so."""
    return error.errno in _ABSENT


@contextmanager
def opened(root: str | os.PathLike[str], *parts: str, create: bool = False) -> Iterator[int]:
    """The directory `root/part/part/…`, open; no part below `root` may be a link.

    :param create: make what is missing, with mode 0700
    :raises FileNotFoundError: unless `create`: a part is not there, or is no directory that can be entered
    :raises OSError: any other refusal
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
    try:
        return open_directory(directory, name)
    except OSError as error:
        if not create and is_absent(error):
            raise FileNotFoundError(errno.ENOENT, f"there is no such directory ({error.strerror})", name) from error
        raise


def open_directory(directory: int, name: str) -> int:
    """Open a directory, with an owner's rights to it.

    :raises OSError: there is no such directory, or something else
    """
    inner = _open_permitted(directory, name, _DIRECTORY)
    grant(inner)
    return inner


def grant(directory: int) -> None:
    """Give ourselves an owner's rights to an open directory; where they cannot be given, what needs them says so."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(OSError):
            os.fchmod(directory, mode | stat.S_IRWXU)


def permit(directory: int, name: str) -> None:
    """Give ourselves an owner's rights to what has this name; opened first, so that a link swapped in is never
    followed. Where they cannot be given, what needs them says so."""
    if not hasattr(os, "O_PATH"):  # not Linux: only what we may enter anyway is reached
        return
    with suppress(OSError):
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
        try:
            mode = os.fstat(handle).st_mode
            rights = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR | stat.S_IWUSR
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | rights)
        finally:
            os.close(handle)


def _open_permitted(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, 0o600, dir_fd=directory)
    except PermissionError:
        grant(directory)  # entered with all rights, but a workload may be at it just now
        permit(directory, name)
        return os.open(name, flags, 0o600, dir_fd=directory)


def open_fifo(directory: int, name: str) -> int:
    """Open a FIFO for writing.

    :raises OSError: it cannot be opened, or nobody reads it; FileNotFoundError when it is something else
    """
    file = _open_permitted(directory, name, os.O_WRONLY | GENTLY)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise FileNotFoundError(errno.ENOENT, "it is no FIFO", name)


def open_regular(directory: int, name: str, flags: int) -> int:
    """Open a regular file, of mode 0600 when it is made.

    :raises OSError: it cannot be opened; FileNotFoundError when it is something else
    """
    file = _open_permitted(directory, name, flags | GENTLY)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise FileNotFoundError(errno.ENOENT, "it is no regular file", name)


def open_file(directory: int, *path: str) -> int | None:
    """Open a file of ours for reading; None when it is not there, or the workload put something in its place.

    :param path: the file's name, after that of the directory it is in; no part may be a link
    """
    folder, name = path
    try:
        with below(directory, folder) as inner:
            return open_regular(inner, name, os.O_RDONLY)
    except OSError as error:
        if is_absent(error):
            return None
        raise


def write_file(directory: int, name: str, data: bytes) -> None:
    """Write a file of mode 0600 that is there wholly or not at all."""
    new = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=directory)
    file = open_regular(directory, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        if os.write(file, data) != len(data):
            raise OSError(errno.ENOSPC, "no room", name)
    finally:
        os.close(file)
    os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
