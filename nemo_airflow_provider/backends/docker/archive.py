"""Files that go into a container and come out of it as tar archives, the engine's own way to copy."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nemo_airflow_provider.errors import BackendError


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a directory.

    :param path: absolute, in the container
    :param mode: permission bits
    :param data: content; None: a directory
    """

    path: str
    mode: int
    data: bytes | None = None


def packed(entries: Iterable[Entry]) -> bytes:
    """A tar archive to be unpacked at the container's root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.path.lstrip("/"))
            info.mode = entry.mode
            if entry.data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data or b""))
    return buffer.getvalue()


def beginning(archive: Iterator[bytes], most_bytes: int) -> bytes | None:
    """The beginning of the one regular file in an archive that arrives in pieces; None when it is something else.

    :raises BackendError: the archive ends too early, as when its engine does
    """
    try:
        with tarfile.open(fileobj=_Reader(archive), mode="r|") as unpacked:
            info = unpacked.next()
            if info is None or not info.isreg():
                return None
            file = unpacked.extractfile(info)
            return b"" if file is None else bytes(file.read(most_bytes))
    except tarfile.TarError as error:
        raise BackendError(f"The engine did not hand out all of a file: {error}") from error


class _Reader(io.RawIOBase):
    """What arrives in pieces, as a file: no more is taken than is read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._left) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._left += piece
        taken = self._left if size < 0 else self._left[:size]
        self._left = self._left[len(taken) :]
        return taken
