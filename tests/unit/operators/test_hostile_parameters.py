"""Parameters of operators that were made to harm, or could never run: an import error, and soon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.operators.parameters import StepParameters
from nemo_airflow_provider.operators.step import SubprocessStepOperator
from nemo_airflow_provider.operators.watching import InvalidTask
from tests.unit.operators.hostile import VALUES, looped


@pytest.fixture(autouse=True)
def _profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("platform: {runtime: docker}\njobs: {enable_subprocess_executor: true}\n")
    monkeypatch.setenv("NHX_CONFIG_FILE_PATH", str(file))


def refused(**parameters: Any) -> str:
    with DAG("daily"), pytest.raises(InvalidTask) as caught:
        SubprocessStepOperator(task_id="train", **{"command": "true", **parameters})
    text = str(caught.value)
    assert text.startswith("DAG 'daily', task 'train': ")
    return text


def looped_words() -> list[Any]:
    words: list[Any] = ["x"]
    words.append(words)
    return words


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_a_config(value: Any, text: str) -> None:
    told = refused(config=value)
    assert "config: " in told and text in told


def test_what_waits_for_the_task_is_bounded_too() -> None:
    value = {**looped(), "when": "{{ ds }}"}
    assert "config: it is nested more than 100 levels deep, or holds itself" in refused(config=value)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"command": looped_words()}, "command: it is nested more than 100 levels deep, or holds itself"),
        ({"environment": looped()}, "environment: it is nested more than 100 levels deep, or holds itself"),
        ({"compute_resources": looped()}, "compute_resources: it is nested more than 100 levels deep"),
        ({"command": b"abc"}, "command: b'abc' is no list of words."),
        ({"command": ""}, "command: '' is no text, or an empty one."),
        ({"command": " \n"}, "is no text, or an empty one."),
        ({"command": "a\0b"}, "command: it holds the character NUL"),
        ({"command": ["a", "b\0"]}, "command: '1' holds the character NUL"),
        ({"command": None, "entrypoint": ["\0"]}, "entrypoint: '0' holds the character NUL"),
        ({"environment": {"A": "\0"}}, "environment: 'A.value' holds the character NUL"),
        ({"environment": {"A": {"from_secret": "a/b/c"}}}, "environment: A: 'a/b/c' cannot be a secret's name"),
        ({"environment": {"A": {"from_secret": ""}}}, "environment: A: '' cannot be a secret's name"),
        ({"job_storage": "/a\0"}, "job_storage: it holds the character NUL"),
        ({"workspace": ["default"]}, "workspace: there is no workspace ['default']. Allowed: default."),
        ({"workspace": {}}, "workspace: there is no workspace {}. Allowed: default."),
    ],
)
def test_a_parameter(parameters: dict[str, Any], text: str) -> None:
    assert text in refused(**parameters)


def test_what_is_rendered_to_something_that_json_lacks_is_told_when_it_runs() -> None:
    given = StepParameters(command=["true"], config={"a": object(), "text": "{{"})
    with pytest.raises(InvalidJob, match="config: it holds something that JSON cannot express"):
        given.step("train", "subprocess", "default")
