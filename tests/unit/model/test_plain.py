"""Values that nobody could store or give back are told by place and reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_airflow_provider.model.plain import MAX_DEPTH, cleaned, flaw_in

#: Whatever a workload or an engine may say, half characters and NUL too.
texts = st.text(st.characters() | st.sampled_from("\0\ud800\udfff"))


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        1.5,
        True,
        "ü\n🙂",
        {"a": [{"b": ""}]},
        nested(MAX_DEPTH),
        [-(2**63), 2**64 - 1, -(2.0**63), 1.8e19, 1e-300],
    ],
)
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
        ({"a": 2**64}, "'a' holds a number outside -2^63 to 2^64-1"),
        ([-(2**63) - 1], "'0' holds a number outside -2^63 to 2^64-1"),
        ({"a": 2.0**64}, "'a' holds a number outside -2^63 to 2^64-1"),
        ({"a": -1e300}, "'a' holds a number outside -2^63 to 2^64-1"),
        ({"a": 10**5000}, "'a' holds a number outside -2^63 to 2^64-1"),
        ({"k" * 500: {"k" * 499: "\0"}}, f"'{'k' * 500}.{'k' * 499}' holds the character NUL (\\u0000)"),
        ({"k" * 10**6: [{"k": "\0"}]}, f"'{'k' * 999}…' holds the character NUL (\\u0000)"),
        (nested(MAX_DEPTH + 1), "it is nested more than 100 levels deep"),
        (nested(100_000), "it is nested more than 100 levels deep"),
    ],
)
def test_flaws(value: Any, text: str) -> None:
    assert flaw_in(value) == text


@given(
    st.recursive(
        st.none() | st.integers(0, 9) | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    )
)
def test_cleaned_text_can_be_stored(value: Any) -> None:
    before = repr(value)
    assert flaw_in(json.loads(json.dumps(cleaned(value)))) is None
    assert repr(value) == before
    assert cleaned(cleaned(value)) == cleaned(value)
    if flaw_in(value) is None:
        assert cleaned(value) == value


def test_what_cleaning_leaves() -> None:
    given = {"a\0": ["x\0y", ("\ud83d", 7)], "ü🙂\n": None}
    assert cleaned(given) == {"a\ufffd": ["x\ufffdy", ["\ufffd", 7]], "ü🙂\n": None}
