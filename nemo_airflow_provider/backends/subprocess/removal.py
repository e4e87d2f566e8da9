"""Removing a directory tree that a workload wrote: it may hold symbolic links, any depth, any mode."""

from __future__ import annotations

import os
from itertools import count

from nemo_airflow_provider.backends.subprocess.reach import open_directory, permit


def empty(directory: int) -> None:
    """Remove everything inside an open directory, nothing outside of it.

    Links are removed, not followed. Subdirectories are moved up before they are entered, so neither the depth of
    the tree nor the length of its paths matters, and two descriptors are enough.

    :raises OSError: something cannot be removed
    """
    os.fchmod(directory, 0o700)
    fresh = count()
    while names := os.listdir(directory):
        for name in names:
            try:
                os.unlink(name, dir_fd=directory)
            except FileNotFoundError:
                continue
            except (IsADirectoryError, PermissionError):  # Linux and POSIX disagree about the error
                _flatten(directory, name, fresh)


def remove(parent: int, name: str) -> None:
    """Remove the directory `name` and all it holds; nothing happens when there is none.

    :raises OSError: something cannot be removed, or `name` is no directory
    """
    try:
        directory = open_directory(parent, name)
    except FileNotFoundError:
        return
    try:
        empty(directory)
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(directory)


def _flatten(directory: int, name: str, fresh: count[int]) -> None:
    below = open_directory(directory, name)
    try:
        for entry in os.listdir(below):
            try:
                os.unlink(entry, dir_fd=below)
            except FileNotFoundError:
                continue
            except (IsADirectoryError, PermissionError):
                permit(below, entry)
                _move_up(below, entry, directory, fresh)
        os.rmdir(name, dir_fd=directory)
    finally:
        os.close(below)


def _move_up(source: int, name: str, target: int, fresh: count[int]) -> None:
    while True:
        new = f".moved-{next(fresh)}"
        try:
            os.stat(new, dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
            return
