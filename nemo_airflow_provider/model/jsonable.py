"""What an author's Python gives for JSON: made JSON in bounded time, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from nemo_airflow_provider.model.plain import MAX_DEPTH

#: Values and keys, one that stands in many places counted in each. A job file of 8 MiB may hold millions, and has no
#: place in Python's text.
_MOST_VALUES = 1_000_000


class NotJson(ValueError):
    """A value cannot be JSON; the text is the reason, about an `it`."""


def jsonable(value: Any) -> Any:
    """The value as JSON has it: tuples and sets as lists, dates and paths as texts, numbers in keys as texts.

    Whether all of it can be stored is another question: see `plain.flaw_in`.

    :raises NotJson: it is too deep or too large, or holds what JSON cannot express
    """
    check_size(value)
    try:
        return to_jsonable_python(value)
    except ValueError as error:
        raise NotJson(f"it holds something that JSON cannot express: {error}") from None


def check_size(value: Any) -> None:
    """Find out whether somebody who walks the value comes to an end.

    :raises NotJson: deeper than `MAX_DEPTH`, or more than a million values; also when it holds itself
    """
    # No recursion: how deep it goes is the question.
    left, count = [_inside(value)], 0
    while left:
        item = next(left[-1], left)
        if item is left:
            left.pop()
            continue
        count += 1
        if count > _MOST_VALUES:
            raise NotJson(f"it has more than {_MOST_VALUES:,} values")
        if isinstance(item, Iterator):
            # Looking at it would use it up, and it may have no end.
            raise NotJson(f"it holds something that JSON cannot express: JSON has no {type(item)}")
        if isinstance(item, Mapping | list | tuple | set | frozenset):
            if len(left) == MAX_DEPTH:
                raise NotJson(f"it is nested more than {MAX_DEPTH} levels deep, or holds itself")
            left.append(_inside(item))


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        return (part for pair in value.items() for part in pair)
    return iter(value if isinstance(value, list | tuple | set | frozenset) else (value,))
