"""Reading a file that a person named, in bounded time and memory, whatever it turns out to be."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from pathlib import Path

from nemo_airflow_provider.errors import NemoJobsError

_WRITER_MILLISECONDS = 500


class UnreadableFile(NemoJobsError):
    """There is nothing to read there; the text is the reason alone, for a sentence of the caller's."""

    exit_code = 2


def read_text(path: Path, *, limit_bytes: int) -> str:
    """A file's UTF-8 text, with or without a byte order mark.

    :raises FileNotFoundError: it is not there
    :raises UnreadableFile: not readable, too large, no text, or a pipe that nothing comes from
    """
    try:
        content = _read(path, limit_bytes + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnreadableFile(_reason(error)) from error
    return _decoded(content, limit_bytes)


def read_stdin(*, limit_bytes: int) -> str:
    """As `read_text`, of stdin. Waits for its writer as long as that takes.

    :raises UnreadableFile: closed, too large, or no text
    """
    # Not there at all when the shell closed it (`<&-`).
    if sys.stdin is None:
        raise UnreadableFile("stdin is closed")
    try:
        content = sys.stdin.buffer.read(limit_bytes + 1)
    except OSError as error:
        raise UnreadableFile(_reason(error)) from error
    return _decoded(content, limit_bytes)


def _read(path: Path, most_bytes: int) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its writer for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as stream:
        if os.path.isdir(descriptor):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        start = _first_byte(descriptor) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        os.set_blocking(descriptor, True)
        return start + stream.read(most_bytes - len(start))


def _first_byte(pipe: int) -> bytes:
    """Tells a pipe without a writer from one whose writer takes its time; of that, nothing is read yet."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.poll(_WRITER_MILLISECONDS)
    try:
        start = os.read(pipe, 1)
    except BlockingIOError:
        return b""
    if not start:
        raise UnreadableFile("it is a pipe, and nothing came from it")
    return start


def _decoded(content: bytes, limit_bytes: int) -> str:
    if len(content) > limit_bytes:
        raise UnreadableFile(f"it is larger than {limit_bytes // (1024 * 1024)} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(f"it is not UTF-8 text: byte 0x{error.object[error.start]:02x} in line {line}") from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
