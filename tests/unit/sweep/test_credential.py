"""A task's credential: read back, and nothing else taken for one."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.sweep.credential import Credential, read_token


def test_there_and_back() -> None:
    made = Credential.make("scheduled__2026-12-01T00:00:00+00:00", "sweep-0a1b")
    assert read_token(made.token) == made
    assert made.matches(made.digest)
    assert made.secret not in made.digest
    assert not made.matches(Credential.make(made.run_id, made.task_id).digest)


@pytest.mark.parametrize("stored", [None, "", 7, {"a": 1}, "é"])
def test_nothing_stored_is_no_match(stored: object) -> None:
    assert not Credential.make("run", "sweep").matches(stored)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nemo-sweep",
        "nemo-sweep...",
        "nemo-sweep.cnVu.c3dlZXA",
        "nemo-sweep.cnVu.c3dlZXA.",
        "nemo-sweep.cnVu.c3dlZXA.a.b",
        "nemo-sweep.\u00e9.c3dlZXA.a",
        "nemo-sweep._w.c3dlZXA.a",
        "other.cnVu.c3dlZXA.a",
        "eyJhbGciOiJIUzUxMiJ9.eyJzdWIiOiJhbm4ifQ.x",
    ],
)
def test_what_is_none(token: str) -> None:
    assert read_token(token) is None
