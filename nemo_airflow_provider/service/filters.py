"""The JSON filter of lists: parsed into conditions on plain fields, then asked of each candidate (contract §3.3).

Accepts operators with and without `$`; a list as value means "one of".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.errors import BadRequest
from nemo_airflow_provider.model.plain import flaw_in

Record = Mapping[str, Any]
Predicate = Callable[[Record], bool]

FIELDS = ("id", "name", "workspace", "project", "source", "status", "created_at", "updated_at")

#: What people are told who use another of the contract's spellings.
JSON_ONLY = """Give the filter as JSON, for example filter={"status": ["completed", "error"]}."""

#: Each is asked of each job: more would keep the server busy for seconds.
MAX_CONDITIONS = 200

_TIMES = frozenset({"created_at", "updated_at"})
_LOGIC = frozenset({"$and", "$or", "$not"})


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, wanted: Any) -> bool:
        if value is None or wanted is None:
            return False
        try:
            return test(value, wanted)
        except TypeError:
            return False

    return compare


def _text(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, wanted: value is not None and test(str(value).lower(), str(wanted).lower())


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: value == wanted,
    "$in": lambda value, wanted: value in wanted,
    "$nin": lambda value, wanted: value not in wanted,
    "$lt": _compare(lambda value, wanted: value < wanted),
    "$lte": _compare(lambda value, wanted: value <= wanted),
    "$gt": _compare(lambda value, wanted: value > wanted),
    "$gte": _compare(lambda value, wanted: value >= wanted),
    "$like": _text(lambda value, wanted: wanted in value),
    "$contains": _text(lambda value, wanted: wanted in value),
    "$startsWith": _text(lambda value, wanted: value.startswith(wanted)),
    "$endsWith": _text(lambda value, wanted: value.endswith(wanted)),
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was understood.

    :param normal: what is echoed in the answer
    :param fields: names of the fields it asks about
    :param matches: the question
    """

    normal: Mapping[str, Any]
    fields: frozenset[str]
    matches: Predicate


def parse_filter(text: str) -> Filter:
    """Understand the value of the `filter` query parameter.

    :raises BadRequest: not a JSON object, an unknown field or operator, a value of the wrong kind
    """
    if not text.lstrip().startswith(("{", "[")):
        raise BadRequest(f"Text filters are not supported yet. {JSON_ONLY}")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"Invalid JSON in filter parameter: {error}") from error
    except RecursionError:
        raise BadRequest("Invalid JSON in filter parameter: it is nested too deeply") from None
    if flaw := flaw_in(data):
        raise BadRequest(f"Invalid JSON in filter parameter: {flaw}")
    if not isinstance(data, dict):
        raise BadRequest("Invalid JSON in filter parameter: an object is wanted")
    if (conditions := _conditions(data)) > MAX_CONDITIONS:
        raise BadRequest(
            f"The filter has {conditions} conditions, and {MAX_CONDITIONS} are the most. For one of many values give "
            'a list: {"name": ["a", "b"]}.'
        )
    fields: set[str] = set()
    normal, predicate = _object(data, fields)
    return Filter(normal, frozenset(fields), predicate)


def _conditions(data: Any) -> int:
    """How many questions a filter asks; an object without any counts as one."""
    if isinstance(data, list):
        return sum(map(_conditions, data))
    if not isinstance(data, dict):
        return 0
    counts = (
        _conditions(value) if key in _LOGIC else len(value) if isinstance(value, dict) else 1
        for key, value in data.items()
    )
    return sum(counts) or 1


def _object(data: Mapping[str, Any], fields: set[str]) -> tuple[dict[str, Any], Predicate]:
    logic = [key for key in data if key in _LOGIC]
    if logic and len(data) > 1:
        raise BadRequest(f"Logical operator '{logic[0]}' must stand alone in its object")
    if logic:
        return _logical(logic[0], data[logic[0]], fields)
    parts = [_field(name, value, fields) for name, value in data.items()]
    normal: dict[str, Any] = {}
    for part, _ in parts:
        normal.update(part)
    return normal, lambda record: all(predicate(record) for _, predicate in parts)


def _logical(operator: str, value: Any, fields: set[str]) -> tuple[dict[str, Any], Predicate]:
    if operator == "$not":
        if not isinstance(value, dict):
            raise BadRequest("$not wants an object")
        inner, negated = _object(value, fields)
        return {"$not": inner}, lambda record: not negated(record)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"{operator} wants a list of objects")
    parts = [_object(item, fields) for item in value]
    join = all if operator == "$and" else any
    return (
        {operator: [part for part, _ in parts]},
        lambda record: join(predicate(record) for _, predicate in parts),
    )


def _field(name: str, value: Any, fields: set[str]) -> tuple[dict[str, Any], Predicate]:
    if name not in FIELDS:
        raise BadRequest(f"Unknown filter field '{name}'. Valid fields: {list(FIELDS)}")
    fields.add(name)
    asked = value if isinstance(value, dict) else {"$in" if isinstance(value, list) else "$eq": value}
    tests: list[tuple[str, Any, Callable[[Any, Any], bool]]] = []
    for key, wanted in asked.items():
        operator = key if key.startswith("$") else f"${key}"
        if operator not in OPERATORS:
            raise BadRequest(f"Unknown operator '{key}' for filter field '{name}'. Valid operators: {list(OPERATORS)}")
        if operator in ("$in", "$nin") and not isinstance(wanted, list):
            raise BadRequest(f"Operator '{operator}' of filter field '{name}' wants a list")
        tests.append((operator, _wanted(name, operator, wanted), OPERATORS[operator]))
    normal = {name: {operator: asked.get(operator, asked.get(operator[1:])) for operator, _, _ in tests}}
    return normal, lambda record: all(test(record.get(name), wanted) for _, wanted, test in tests)


def _wanted(name: str, operator: str, wanted: Any) -> Any:
    """The value to compare with; moments are compared as moments, and one of many is looked up."""
    if name in _TIMES and operator in ("$eq", "$in", "$nin", "$lt", "$lte", "$gt", "$gte"):
        wanted = [_moment(name, item) for item in wanted] if isinstance(wanted, list) else _moment(name, wanted)
    if operator not in ("$in", "$nin"):
        return wanted
    return frozenset(item for item in wanted if isinstance(item, Hashable))


def _moment(name: str, wanted: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(wanted)
    except (TypeError, ValueError):
        raise BadRequest(f"Filter field '{name}' wants an ISO 8601 time, got {wanted!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def sort_key(field: str, record: Record) -> tuple[bool, Any]:
    """Orders records by a field; an absent value comes first."""
    value = record.get(field)
    return (value is not None, value)


def sorted_records(records: Sequence[Record], sort: str) -> list[Record]:
    """Records in the order of a `sort` parameter: a field name, descending with `-` before it."""
    return sorted(records, key=lambda record: sort_key(sort.lstrip("-"), record), reverse=sort.startswith("-"))
