"""Job files and Python values that were made to harm whoever reads them."""

from __future__ import annotations

from typing import Any

import pytest

_HEAD = "source: s\nplatform_spec: {}\nspec:\n"
#: Nine to the eighth power of lists behind two hundred bytes.
LAUGHS = (
    _HEAD
    + "  a0: &a0 [lol, lol]\n"
    + "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
)

FILES = [
    pytest.param(LAUGHS, "cannot be used: it has more than 100,000 values, with its aliases written out", id="laughs"),
    pytest.param("x: " + "[" * 5000, "nesting depth", id="deep"),
    pytest.param('{"x": ' + "[" * 5000, "nesting depth", id="deep-json"),
    pytest.param("a: &x {b: *x}", "the alias *x in line 1 stands inside the value it refers to", id="loop"),
    pytest.param("spec: 2026-02-31", "is neither JSON nor YAML: a value in it cannot be read (ValueError", id="date"),
    pytest.param("a: 1\na: 2", "the key 'a' is given twice, in line 1 and in line 2", id="twice"),
    pytest.param("a: .nan", "holds something that JSON cannot express", id="nan"),
    pytest.param("? [1]\n: 2", "is neither JSON nor YAML", id="key"),
    pytest.param("- 1", "must be a JSON or YAML object, not a list.", id="list"),
    pytest.param("a: [", "is neither JSON nor YAML", id="broken"),
    pytest.param("#" * (8 * 1024 * 1024 + 1), "cannot be read: it is larger than 8 MiB", id="large"),
    pytest.param(None, "cannot be read: No such file or directory", id="missing"),
]


def looped() -> dict[str, Any]:
    """A mapping that holds itself."""
    value: dict[str, Any] = {}
    value["a"] = value
    return value


def deep(levels: int) -> dict[str, Any]:
    """Mappings in mappings."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def bomb() -> dict[str, Any]:
    """Few lists that stand for very many."""
    value: list[Any] = ["lol"]
    for _ in range(12):
        value = [value] * 9
    return {"a": value}


VALUES = [
    pytest.param(looped(), "nested more than 100 levels deep, or holds itself", id="loop"),
    pytest.param(deep(900), "nested more than 100 levels deep, or holds itself", id="deep"),
    pytest.param(bomb(), "more than 1,000,000 values", id="bomb"),
    pytest.param({"a": float("nan")}, "'a' holds the number nan", id="nan"),
    pytest.param({"a": object()}, "Unable to serialize unknown type: <class 'object'>", id="object"),
    pytest.param({"a": iter(())}, "JSON has no <class 'tuple_iterator'>", id="iterator"),
    pytest.param({"a": ["\0"]}, "'a.0' holds the character NUL", id="nul"),
]
