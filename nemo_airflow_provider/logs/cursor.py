"""The page cursor: a direction and a place between two lines, bound to the filters it was made for.

A place is (attempt, step index, generation, seq). It never moves: lines are only ever added at the end of a
stream, and streams after the last one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from nemo_airflow_provider.errors import InvalidJob

_FORM = struct.Struct(">BIIIQ8s")
_CHECKSUM = struct.Struct(">I")


class InvalidCursor(InvalidJob):
    """Not one of our cursors. `nemo jobs watch` knows this text and begins anew (REST contract §6)."""

    code = "invalid_page_cursor"

    def __init__(self) -> None:
        super().__init__("Invalid page cursor")


class CursorMismatch(InvalidJob):
    """A cursor of another job, attempt, step or task."""

    code = "page_cursor_mismatch"

    def __init__(self) -> None:
        super().__init__("page_cursor does not match the current log filters.")


class Direction(IntEnum):
    """Which lines a cursor asks for, seen from its place."""

    FORWARD = 1  #: those from the place on
    BACKWARD = 2  #: those before it, reached from a page
    TAIL = 3  #: those before it, reached from a tail window: such pages have no next page


@dataclass(frozen=True, slots=True)
class Cursor:
    """See the module.

    :param stream: (attempt, step index, generation)
    :param seq: the first line after the place
    """

    direction: Direction
    stream: tuple[int, int, int]
    seq: int

    def encode(self, scope: str) -> str:
        """URL-safe text."""
        body = _FORM.pack(self.direction, *self.stream, self.seq, _fingerprint(scope))
        return base64.urlsafe_b64encode(body + _CHECKSUM.pack(zlib.crc32(body))).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, scope: str) -> Cursor:
        """The inverse of `encode`.

        :raises InvalidCursor: nothing that `encode` makes
        :raises CursorMismatch: made for another scope
        """
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            direction, attempt, step_index, generation, seq, fingerprint = _FORM.unpack_from(raw)
            cursor = cls(Direction(direction), (attempt, step_index, generation), seq)
            (checksum,) = _CHECKSUM.unpack(raw[_FORM.size :])
        except (binascii.Error, struct.error, ValueError):
            raise InvalidCursor from None
        if checksum != zlib.crc32(raw[: _FORM.size]):
            raise InvalidCursor
        if fingerprint != _fingerprint(scope):
            raise CursorMismatch
        return cursor


def _fingerprint(scope: str) -> bytes:
    return hashlib.sha256(scope.encode()).digest()[:8]
