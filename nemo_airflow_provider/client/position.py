"""How far a log was read, as something that can be stored: a later process goes on there."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from nemo_airflow_provider.client.transport import JsonObject

#: What makes two rows the same line.
_IDENTITY = ("timestamp", "job_step", "job_task", "message")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The end of what was read of one log, with pages of one length.

    Lines of that page are known by 32-bit marks, not by their number alone: a server without a stable cursor
    (upstream 0.8.1, whose cursor is a page number) moves lines to later pages when older ones arrive late.

    :param cursor: of the page the end is in; None is the first one
    :param skip: lines from the cursor on that were read
    :param marks: of those of them that are in the cursor's page; empty where they are not known
    :param before: of the lines of the page before it
    :param first: of the log's first line; None before there was one
    :param given: lines that were read
    """

    cursor: str | None = None
    skip: int = 0
    marks: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    first: int | None = None
    given: int = 0

    def fresh(self, rows: Sequence[JsonObject], marks: Sequence[int]) -> list[JsonObject]:
        """Those of the cursor's rows that were not read.

        :param marks: of the rows
        """
        if tuple(marks[: len(self.marks)]) == self.marks:
            return list(rows[self.skip :])
        known = Counter(self.marks) + Counter(self.before)
        found = []
        for row, mark in zip(rows, marks, strict=True):
            if known[mark]:
                known[mark] -= 1
            else:
                found.append(row)
        return found

    def dump(self) -> dict[str, Any]:
        """Plain data; marks as 8 hex digits each, in one text."""
        return asdict(self) | {"marks": _packed(self.marks), "before": _packed(self.before)}

    @classmethod
    def parse(cls, data: Any) -> Self:
        """The inverse of `dump`.

        :raises ValueError: nothing that `dump` makes
        """
        try:
            found = cls(**{**data, "marks": _unpacked(data["marks"]), "before": _unpacked(data["before"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"no position in a log: {data!r}") from error
        numbers = (found.skip, found.given, found.first or 0)
        if not all(isinstance(number, int) for number in numbers) or not isinstance(found.cursor, str | None):
            raise ValueError(f"no position in a log: {data!r}")
        return found


@dataclass(slots=True)
class Page:
    """A page of a log with the marks of its rows."""

    content: JsonObject
    marks: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.marks = tuple(map(mark_of, self.rows))

    @property
    def rows(self) -> list[JsonObject]:
        """Its lines."""
        rows: list[JsonObject] = self.content["data"]
        return rows

    @property
    def is_last(self) -> bool:
        """Whether no page follows, now."""
        return self.content.get("next_page") is None


def mark_of(row: JsonObject) -> int:
    """32 bits that tell a line from those around it."""
    return zlib.crc32("\0".join(str(row.get(key)) for key in _IDENTITY).encode(errors="replace"))


def _packed(marks: Sequence[int]) -> str:
    return "".join(f"{mark:08x}" for mark in marks)


def _unpacked(text: str) -> tuple[int, ...]:
    return tuple(int(text[at : at + 8], 16) for at in range(0, len(text), 8))
