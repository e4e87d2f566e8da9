"""What every part can hold: Postgres' jsonb and text, JSON on the wire, the channel between Airflow and its tasks, and
whoever walks a value level by level.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

#: Deepest nesting of lists and objects; the serializers stop at about 250, with an error of their own.
MAX_DEPTH = 100

#: Airflow hands a run's conf to its tasks as MessagePack, which has no other integers; and Postgres' jsonb gives a
#: float that large back as an integer.
_LEAST, _MOST = -(2**63), 2**64 - 1
#: Characters of a place that are told: keys are as long as somebody likes.
_MAX_PLACE = 1000
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


def flaw_in(value: Any) -> str | None:
    """Where and why a JSON value cannot be stored and given back, or None when it can.

    Python's JSON reader lets through NaN, infinite numbers and lone surrogates, which its writer or UTF-8 refuses;
    Postgres refuses the character NUL.
    """
    if not isinstance(value, dict | list):
        reason = _flaw_of(value)
        return reason and _told((), reason)
    # No recursion: how deep it goes is one of the questions. And no path for what is no list or object: there may be
    # millions of them.
    left: list[tuple[tuple[str, ...], dict[str, Any] | list[Any]]] = [((), value)]
    while left:
        path, holder = left.pop()
        if len(path) == MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} levels deep"
        if isinstance(holder, dict) and (reason := _first(map(_flaw_of_text, holder))):
            return _told(path, reason)
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list):
                if item:
                    left.append(((*path, str(key)), item))
            elif reason := _flaw_of(item):
                return _told((*path, str(key)), reason)
    return None


def _first(reasons: Iterable[str | None]) -> str | None:
    return next(filter(None, reasons), None)


def _told(path: tuple[str, ...], reason: str) -> str:
    if not path:
        return f"it holds {reason}"
    place = ".".join(path)
    shown = place if len(place) <= _MAX_PLACE else f"{place[: _MAX_PLACE - 1]}…"
    return f"'{shown}' holds {reason}"


def _flaw_of(item: Any) -> str | None:
    if isinstance(item, str):
        return _flaw_of_text(item)
    if isinstance(item, float) and not math.isfinite(item):
        return f"the number {item}"
    if isinstance(item, int | float) and not _LEAST <= item <= _MOST:
        return "a number outside -2^63 to 2^64-1"
    return None


def _flaw_of_text(text: str) -> str | None:
    if "\0" in text:
        return "the character NUL (\\u0000)"
    if not text.isascii() and _UNSTORABLE.search(text):
        return "half of a surrogate pair"
    return None


def cleaned(value: Any) -> Any:
    """The same JSON value with U+FFFD for every character that cannot be stored, in keys too.

    For what workloads and engines say: a record with one such character in it would be lost as a whole.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return value
