"""What authors' Python gives for JSON: made JSON, or refused soon."""

from __future__ import annotations

from datetime import date
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.model.jsonable import NotJson, jsonable
from nemo_airflow_provider.model.plain import MAX_DEPTH


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_what_json_makes_of_it() -> None:
    shared = [1]
    given = {1: (2, None), "when": date(2026, 2, 3), "where": Path("/x"), "set": {True}, "twice": [shared, shared]}
    assert jsonable(given) == {"1": [2, None], "when": "2026-02-03", "where": "/x", "set": [True], "twice": [[1], [1]]}


def test_as_deep_as_it_may_be() -> None:
    assert jsonable(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(NotJson, match="it is nested more than 100 levels deep, or holds itself"):
        jsonable(nested(MAX_DEPTH + 1))


def test_as_large_as_it_may_be() -> None:
    assert len(jsonable([0] * 1_000_000)) == 1_000_000
    with pytest.raises(NotJson, match="it has more than 1,000,000 values"):
        jsonable([0] * 1_000_001)


def test_what_has_no_end_is_not_looked_at() -> None:
    with pytest.raises(NotJson, match="JSON has no <class 'itertools.repeat'>"):
        jsonable({"a": repeat(1)})
