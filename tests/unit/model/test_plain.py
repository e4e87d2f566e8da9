"""Values that nobody could store or give back are told by place and reason."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.model.plain import MAX_DEPTH, flaw_in


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize("value", [None, 1, 1.5, True, "ü\n🙂", {"a": [{"b": ""}]}, nested(MAX_DEPTH)])
def test_plain(value: Any) -> None:
    assert flaw_in(value) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\0", "it holds the character NUL (\\u0000)"),
        ({"a": {"b": ["x", "\0"]}}, "'a.b.1' holds the character NUL (\\u0000)"),
        ({"a": {"b\0": 1}}, "'a' holds the character NUL (\\u0000)"),
        ({"a": "\ud83d"}, "'a' holds half of a surrogate pair"),
        ({"\ud83d": {"\ud83d": "\0"}}, "it holds half of a surrogate pair"),
        ({"a": float("inf")}, "'a' holds the number inf"),
        (nested(MAX_DEPTH + 1), "it is nested more than 100 levels deep"),
        (nested(100_000), "it is nested more than 100 levels deep"),
    ],
)
def test_flaws(value: Any, text: str) -> None:
    assert flaw_in(value) == text
