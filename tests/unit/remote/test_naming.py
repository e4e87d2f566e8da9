"""Names of remote jobs: legal, stable, one a caller."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.model import names
from nemo_airflow_provider.remote.naming import Caller, derived_name, numbered_name

CALLERS = st.builds(Caller, st.text(), st.text(), st.text(), st.integers(-1, 99), st.integers(0, 99))


def test_it_can_be_read() -> None:
    caller = Caller("Train_LLM.v2", "manual__2026-12-01T00:00:00+00:00", "fine.tune", -1, 3)
    assert re.fullmatch(r"train-llm-v2-fine-tune-[0-9a-f]{12}", derived_name(caller))
    assert derived_name(caller) == derived_name(Caller(*(getattr(caller, key) for key in caller.__slots__)))


@given(CALLERS, CALLERS)
@settings(deadline=None)
def test_legal_and_injective(one: Caller, other: Caller) -> None:
    name = derived_name(one)
    assert names.is_name(name) and len(name) <= 51
    assert (name == derived_name(other)) == (one == other)


@given(st.from_regex(r"\A[a-z][a-z0-9.+_@]{1,50}\Z"), st.integers(2, 10_000))
@settings(deadline=None)
def test_numbered(name: str, ordinal: int) -> None:
    numbered = numbered_name(name, ordinal)
    assert names.is_name(numbered) and len(numbered) <= 51
    assert numbered != numbered_name(name, ordinal + 1)
    assert numbered_name(name, 1) == name
