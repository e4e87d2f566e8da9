"""Names of runs and tasks of DAGs that people write: legal, told apart, and the document comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_airflow_provider.model import authored, names

KEYS = st.text("abcXYZ019._-", min_size=1, max_size=250)


@given(KEYS, KEYS)
def test_a_job_name_is_legal_and_short(dag_id: str, run_id: str) -> None:
    name = authored.job_name(dag_id, run_id)
    assert names.is_name(name) and len(name) <= names.MAX_NAME_WITHOUT_OUTPUT_LOCATION
    assert names.job_name_of(names.run_id_of(name)) == name
    assert authored.head_in(name) == authored.head_of(dag_id)


def test_a_job_name_reads_well_and_tells_runs_apart() -> None:
    run = "scheduled__2026-12-01T00:00:00+00:00"
    assert authored.job_name("Nightly_Training", run).startswith("nightly_training-")
    made = {authored.job_name(dag, each) for dag in ("train", "Train", "tra_in") for each in (run, "manual__1")}
    assert len(made) == 6


@given(KEYS, st.integers(-1, 10**9), KEYS, st.integers(-1, 10**9))
def test_step_names_are_legal_and_injective(task: str, index: int, other: str, other_index: int) -> None:
    name = authored.step_name(task, index)
    assert names.is_name(name)
    assert names.step_name_of(names.task_id_of(name)) == name
    if (task, index) != (other, other_index):
        assert authored.step_name(other, other_index) != name
        assert authored.stream_number(name) != authored.stream_number(authored.step_name(other, other_index))


def test_a_task_id_that_is_a_step_name_stays() -> None:
    assert authored.step_name("group.train_it") == "group.train_it"
    assert authored.step_name("train", 3) == "train@3"
    assert authored.step_name("Train").startswith("train+")


CONF: dict[str, Any] = {
    "source": "file",
    "spec": {},
    "platform_spec": {"steps": [{"name": "one", "executor": {"provider": "subprocess", "command": ["true"]}}]},
}


def test_a_document_comes_back() -> None:
    document = authored.JobDocument("research", CONF)
    assert authored.read_document(document.dumps()) == document


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        json.dumps({"workspace": "default"}),
        json.dumps({"workspace": 1, "conf": CONF}),
        json.dumps({"workspace": "default", "conf": {**CONF, "platform_spec": {"steps": []}}}),
        json.dumps({"workspace": "default", "conf": {**CONF, "description": "\x00"}}),
        "[" * 100_000,
    ],
)
def test_what_is_no_document(text: str) -> None:
    assert authored.read_document(text) is None
