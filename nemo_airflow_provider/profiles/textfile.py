"""Reading the configuration file: whatever its path leads to, in bounded time and memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nemo_airflow_provider.errors import ConfigError

#: Larger files are refused: a MiB takes about two seconds, and requests wait for it.
MAX_BYTES = 1024 * 1024


class UnreadableFile(ConfigError):
    """There is nothing to read at the path."""


def read_text(path: Path, named_by: str | None) -> str:
    """The file's text.

    :param named_by: the setting that names the file, for the messages; None: a person does
    :raises UnreadableFile: there is no such file, it is none, or it may not be read
    :raises ConfigError: it is too large, or not UTF-8
    """
    content = _content(path, named_by)
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"Configuration file '{path}' is larger than {MAX_BYTES // 1024} KiB, which is the most that is read."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"Configuration file '{path}' is not UTF-8 text: byte 0x{content[error.start]:02x} in line "
            f"{line}. Save it as UTF-8."
        ) from error


def _content(path: Path, named_by: str | None) -> bytes:
    """At most one byte more than is allowed."""
    try:
        # Not blocking: a pipe without a writer would never open.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if reason := _refusal(os.fstat(file.fileno()).st_mode):
                raise _unreadable(path, named_by, reason)
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        remedy = (
            f" {named_by} names it; correct the path, or remove the setting to run with built-in profiles."
            if named_by
            else ""
        )
        raise UnreadableFile(f"Configuration file '{path}' does not exist.{remedy}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise _unreadable(path, named_by, getattr(error, "strerror", None) or str(error)) from error


def _unreadable(path: Path, named_by: str | None, reason: str) -> UnreadableFile:
    named = f", named by {named_by}," if named_by else ""
    return UnreadableFile(f"Configuration file '{path}'{named} cannot be read: {reason}.")


def _refusal(mode: int) -> str | None:
    """Why a file of this mode is not read; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file"
