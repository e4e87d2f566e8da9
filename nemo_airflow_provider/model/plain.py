"""What every part can hold: Postgres' jsonb and text, JSON on the wire, and whoever walks a value level by level."""

from __future__ import annotations

import math
from typing import Any

#: Deepest nesting of lists and objects; the serializers stop at about 250, with an error of their own.
MAX_DEPTH = 100


def flaw_in(value: Any) -> str | None:
    """Where and why a JSON value cannot be stored and given back, or None when it can.

    Python's JSON reader lets through NaN, infinite numbers and lone surrogates, which its writer or UTF-8 refuses;
    Postgres refuses the character NUL.
    """
    # No recursion: how deep it goes is one of the questions.
    left: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while left:
        path, item = left.pop()
        if len(path) > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} levels deep"
        if isinstance(item, dict):
            left.extend(((*path, key), inner) for key, inner in item.items())
            reason = next(filter(None, map(_flaw_of_text, item)), None)
        elif isinstance(item, list):
            left.extend(((*path, str(index)), inner) for index, inner in enumerate(item))
            continue
        else:
            reason = _flaw_of(item)
        if reason is not None:
            return f"'{'.'.join(path)}' holds {reason}" if path else f"it holds {reason}"
    return None


def _flaw_of(item: Any) -> str | None:
    if isinstance(item, str):
        return _flaw_of_text(item)
    if isinstance(item, float) and not math.isfinite(item):
        return f"the number {item}"
    return None


def _flaw_of_text(text: str) -> str | None:
    if "\0" in text:
        return "the character NUL (\\u0000)"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    return None
