"""The JSON filter: every operator, the normal form, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from nemo_airflow_provider.errors import BadRequest
from nemo_airflow_provider.service.filters import parse_filter, sorted_records

RECORD = {
    "id": "platform-job-x",
    "name": "probe-c1",
    "workspace": "default",
    "project": None,
    "source": "ci",
    "status": "completed",
    "created_at": datetime(2026, 12, 1, 12, tzinfo=UTC),
    "updated_at": datetime(2026, 12, 1, 13, tzinfo=UTC),
}


def many_conditions(number: int) -> str:
    return json.dumps({"$or": [{"name": f"job-{index}"} for index in range(number)]})


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("{}", True),
        (many_conditions(200), False),
        ('{"project": ["a", null]}', True),
        ('{"project": {"nin": ["a", null]}}', False),
        ('{"status": ["completed", ["unhashable"], {}]}', True),
        ('{"created_at": {"in": ["2026-12-01T12:00:00Z"]}}', True),
        ('{"status": "completed"}', True),
        ('{"status": ["completed", "error"]}', True),
        ('{"status": ["error"]}', False),
        ('{"status": {"$in": ["completed"]}}', True),
        ('{"status": {"nin": ["completed"]}}', False),
        ('{"name": {"$like": "PROBE-C"}}', True),
        ('{"name": {"$startsWith": "probe"}}', True),
        ('{"name": {"$endsWith": "c2"}}', False),
        ('{"source": {"$contains": "c"}}', True),
        ('{"project": null}', True),
        ('{"project": {"$gt": "a"}}', False),
        ('{"created_at": {"gte": "2026-12-01T00:00:00"}}', True),
        ('{"created_at": {"$gt": "2026-12-01T12:00:00+00:00"}}', False),
        ('{"created_at": {"$gte": "2026-12-01T00:00:00", "$lt": "2026-12-01T12:00:00"}}', False),
        ('{"created_at": "2026-12-01T12:00:00Z"}', True),
        ('{"status": "completed", "source": "other"}', False),
        ('{"$or": [{"status": "error"}, {"source": "ci"}]}', True),
        ('{"$and": [{"status": "error"}, {"source": "ci"}]}', False),
        ('{"$not": {"status": "error"}}', True),
    ],
)
def test_matches(text: str, matches: bool) -> None:
    assert parse_filter(text).matches(RECORD) is matches


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ('{"status": "completed"}', {"status": {"$eq": "completed"}}),
        ('{"status": ["a"]}', {"status": {"$in": ["a"]}}),
        ('{"name": {"like": "x"}}', {"name": {"$like": "x"}}),
        ('{"$or": [{"status": "a"}]}', {"$or": [{"status": {"$eq": "a"}}]}),
    ],
)
def test_normal_form(text: str, normal: dict[str, Any]) -> None:
    assert parse_filter(text).normal == normal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{bad", "Invalid JSON in filter parameter"),
        ("[]", "Invalid JSON in filter parameter"),
        ('status:"completed"', "Text filters are not supported yet. Give the filter as JSON"),
        ('{"$not": ' * 5000 + "{}" + "}" * 5000, "nested"),
        ('{"$not": ' * 200 + "{}" + "}" * 200, "nested more than 100 levels"),
        ('{"source": NaN}', "'source' holds the number nan"),
        ('{"source": "\\ud800"}', "'source' holds half of a surrogate pair"),
        ('{"nope": 1}', "Unknown filter field 'nope'. Valid fields: ['id', 'name'"),
        ('{"name": {"$near": 1}}', "Unknown operator '$near'"),
        ('{"name": {"$in": "a"}}', "wants a list"),
        ('{"created_at": {"$gt": "yesterday"}}', "wants an ISO 8601 time"),
        ('{"$or": {}}', "$or wants a list of objects"),
        ('{"$not": []}', "$not wants an object"),
        ('{"$or": [], "name": "x"}', "must stand alone"),
        (
            many_conditions(201),
            "The filter has 201 conditions, and 200 are the most. For one of many values give a list",
        ),
        ('{"$and": [' + "{}, " * 250 + "{}]}", "The filter has 251 conditions"),
        ('{"name": {"$gt": 1, "$lt": 2}, "source": {"$not": 3}, "$x": [' + "1, " * 300 + "1]}", "Unknown operator"),
        ('{"source": 18446744073709551616}', "'source' holds a number outside"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_filter(text)
    assert message in str(caught.value)


def test_sorting_puts_absent_values_first_and_keeps_equal_ones_in_order() -> None:
    records = [{"source": "b", "n": 1}, {"source": None, "n": 2}, {"source": "a", "n": 3}, {"source": "b", "n": 4}]
    assert [record["n"] for record in sorted_records(records, "source")] == [2, 3, 1, 4]
    assert [record["n"] for record in sorted_records(records, "-source")][-1] == 2
