"""Request bodies: what is refused, with which words, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.body import generated_name, unknown_keys
from nemo_airflow_provider.model.limits import MAX_STEPS
from nemo_airflow_provider.model.shape import loads, shape_of
from nemo_airflow_provider.model.spec import GpuExecutor, JobRequest


def body(**changes: Any) -> dict[str, Any]:
    step = {"name": "train", "executor": {"provider": "subprocess", "command": ["true"]}}
    return {"source": "test", "spec": {}, "platform_spec": {"steps": [step]}} | changes


def step_body(**changes: Any) -> dict[str, Any]:
    step = {"name": "train", "executor": {"provider": "subprocess", "command": ["true"]}} | changes
    return body(platform_spec={"steps": [step]})


def test_defaults_are_filled_in() -> None:
    request = JobRequest.model_validate(
        step_body(executor={"provider": "cpu", "container": {}}, environment=[{"name": "A", "value": "1"}])
    )
    assert request.platform_spec.model_dump(mode="json")["steps"][0] == {
        "name": "train",
        "environment": [{"name": "A", "value": "1", "from_secret": None}],
        "executor": {
            "provider": "cpu",
            "profile": "default",
            "container": {"image": None, "entrypoint": [], "command": []},
            "resources": {
                "requests": {"cpu": None, "memory": None},
                "limits": {"cpu": None, "memory": None},
                "num_nodes": 1,
                "num_gpus": None,
                "shm_size": None,
            },
        },
        "config": {},
        "lifecycle": {"staleness_timeout_seconds": 0},
    }


def test_an_empty_mapping_is_an_empty_environment() -> None:
    assert JobRequest.model_validate(step_body(environment={})).platform_spec.steps[0].environment == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (body(platform_spec={"steps": []}), "At least one step is required in the job specification."),
        (
            body(platform_spec={"steps": step_body()["platform_spec"]["steps"] * 2}),
            "Each step must have a unique name.",
        ),
        (
            step_body(environment=[{"name": "A"}]),
            "Either value or from_secret must be provided for environment variables.",
        ),
        (
            step_body(environment=[{"name": "A", "value": "", "from_secret": {"name": "s"}}]),
            "Only one of value or from_secret can be provided for environment variables.",
        ),
        (step_body(executor={"provider": "subprocess"}), "subprocess execution requires command to be set"),
        (step_body(executor={"provider": "subprocess", "command": []}), "requires command to be set"),
        (step_body(executor={"command": ["true"]}), "Unable to extract tag"),
        (step_body(executor={"provider": "cpu"}), "Field required"),
        (step_body(name="Train"), "String should match pattern"),
        (step_body(name="train\n"), "String should match pattern"),
        (body(name="a--b"), "String should match pattern"),
        (body(name="job\n"), "String should match pattern"),
        (
            body(platform_spec={"steps": [None] * (MAX_STEPS + 1)}),
            "A job has at most 100 steps, and this one has 101. Split it into several jobs.",
        ),
        (body(name="a" * 52), "name must be at most 51 characters when output_location is not set"),
        (body(output_location=" "), "output_location must not be empty"),
        (body(output_location="a#b"), "subpath in output_location is not yet supported"),
        (body(output_location="w/a"), "output_location must be a bare fileset name"),
        (body(output_location="A"), "output_location is not a valid fileset name."),
        (
            step_body(executor={"provider": "gpu", "container": {}, "resources": {"shm_size": "1Ki"}}),
            "shm_size must use a megabyte/gigabyte-scale suffix",
        ),
        (
            step_body(executor={"provider": "gpu", "container": {}, "resources": {"shm_size": " "}}),
            "shm_size cannot be empty or whitespace-only",
        ),
        ({key: value for key, value in body().items() if key != "source"}, "Field required"),
    ],
)
def test_refusals(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text.replace("[", r"\[").replace(".", r"\.")):
        JobRequest.model_validate(given)


def test_a_name_is_refused_in_upstreams_words() -> None:
    for given in (body(name="job\n"), step_body(name="Train")):
        with pytest.raises(ValidationError) as caught:
            JobRequest.model_validate(given)
        (problem,) = caught.value.errors()
        assert (problem["type"], problem["ctx"]) == ("string_pattern_mismatch", {"pattern": names.NAME_PATTERN})


def test_the_schema_has_the_pattern_of_names() -> None:
    schema = JobRequest.model_json_schema()
    job, _ = schema["properties"]["name"]["anyOf"]
    step = schema["$defs"]["StepSpec"]["properties"]["name"]
    assert job["pattern"] == step["pattern"] == names.NAME_PATTERN


def steps(number: int) -> list[dict[str, Any]]:
    (step,) = step_body()["platform_spec"]["steps"]
    return [step | {"name": f"step-{index}"} for index in range(number)]


def test_the_most_steps() -> None:
    spec = JobRequest.model_validate(body(platform_spec={"steps": steps(MAX_STEPS)})).platform_spec
    assert len(spec.steps) == MAX_STEPS


def test_a_shape_of_more_steps_is_none() -> None:
    """A Variable made by hand, or by a version without the limit, would slow all of Airflow down."""
    triples = [(f"step-{index}", "cpu", "default") for index in range(MAX_STEPS + 1)]
    most, more = shape_of("default", triples[:-1]), shape_of("default", triples)
    assert loads(most.dag_id, most.dumps()) == most
    with pytest.raises(ValueError, match="has 101 steps, and a job has at most 100"):
        loads(more.dag_id, more.dumps())


def test_a_long_name_is_fine_with_an_output_location() -> None:
    assert JobRequest.model_validate(body(name="a" * 63, output_location="artifacts")).name == "a" * 63


def test_shm_size_is_trimmed() -> None:
    executor = {"provider": "gpu", "container": {}, "resources": {"shm_size": " 2Gi "}}
    read = JobRequest.model_validate(step_body(executor=executor)).platform_spec.steps[0].executor
    assert isinstance(read, GpuExecutor) and read.resources.shm_size == "2Gi"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("My Source!", "my-source-abcd1234"),
        ("", "job-abcd1234"),
        ("123-x", "x-abcd1234"),
        ("a" * 30, "a" * 20 + "-abcd1234"),
        ("nineteen-chars-here -x", "nineteen-chars-here-abcd1234"),
    ],
)
def test_generated_names(source: str, name: str) -> None:
    assert generated_name(source, "abcd1234") == name


def test_unknown_keys_are_named_by_path_and_free_forms_are_left_alone() -> None:
    given = step_body(confg={}, config={"free": 1}, executor={"provider": "subprocess", "command": ["x"], "img": 1})
    given |= {"spec": {"anything": 1}, "sorce": "x"}
    request = JobRequest.model_validate(given)
    assert sorted(unknown_keys(given, request.model_dump(mode="json"))) == [
        "platform_spec.steps.0.confg",
        "platform_spec.steps.0.executor.img",
        "sorce",
    ]
