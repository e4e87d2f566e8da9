"""Objects of the API as JSON, read without trust in their shape: what is not as it should be is not there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

#: Characters of what is quoted: the words of a scheduler in front of many nodes, or of a registry, have no end.
_MOST_WORDS = 1024
#: Larger is no number of seconds, no exit code and no count.
_MOST = 2**31
#: Other years are no time of a cluster, and leave no room for arithmetic.
_YEARS = range(1970, 3000)


def value(thing: object, *path: str) -> Any:
    """What stands at a path of keys; None where nothing does."""
    for key in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(key)
    return thing


def part(thing: object, *path: str) -> Mapping[str, Any]:
    """The object at a path; an empty one where there is none."""
    found = value(thing, *path)
    return found if isinstance(found, Mapping) else {}


def parts(thing: object, *path: str) -> list[Mapping[str, Any]]:
    """The objects of the list at a path."""
    found = value(thing, *path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []


def text(thing: object, *path: str) -> str:
    """The text at a path, on one line and not too long; an empty one where there is none."""
    found = value(thing, *path)
    return words(found) if isinstance(found, str) else ""


def words(told: str) -> str:
    """A text on one line, and not too long."""
    line = " ".join(told.split())
    return line if len(line) <= _MOST_WORDS else f"{line[: _MOST_WORDS - 1]}…"


def number(thing: object, *path: str) -> int | None:
    """The whole number at a path."""
    found = value(thing, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < _MOST else None


def moment(thing: object, *path: str) -> datetime | None:
    """The time at a path, of seconds or of microseconds."""
    try:
        found = datetime.fromisoformat(str(value(thing, *path)))
    except ValueError:
        return None
    if found.year not in _YEARS:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
