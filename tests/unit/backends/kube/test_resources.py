"""A step's resources over its profile's, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.kube.resources import PodResources, resources_of
from nemo_airflow_provider.errors import StartError
from tests.unit.backends.kube.make import profile, workload


def found(own: dict[str, Any], default: dict[str, Any], provider: str = "cpu", **keys: Any) -> PodResources:
    step = workload(provider=provider, resources=own).step
    assert step.executor.provider != "subprocess"
    return resources_of("train", step.executor, profile(resources=default, **keys))


def told(own: dict[str, Any], default: dict[str, Any], provider: str = "cpu", **keys: Any) -> str:
    with pytest.raises(StartError) as error:
        found(own, default, provider, **keys)
    return str(error.value)


def test_nothing_asked() -> None:
    assert found({}, {}).body() == {}


def test_field_by_field() -> None:
    own = {"requests": {"cpu": " 500m "}, "limits": {"memory": "2Gi"}, "shm_size": "1Gi"}
    default = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}, "shm_size": "2Gi"}
    assert found(own, default) == PodResources(
        requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "2Gi"}, shm_size="1Gi"
    )
    assert found({}, default).shm_size == "2Gi"


@pytest.mark.parametrize(
    ("own", "default", "general", "gpus"),
    [(None, None, 3, 3), (None, 2, 3, 2), (1, 2, 3, 1), (0, 2, 3, 0)],
)
def test_gpus(own: int | None, default: int | None, general: int, gpus: int) -> None:
    made = found({"num_gpus": own}, {"num_gpus": default}, "gpu", num_gpus=general)
    assert made.gpus == gpus
    assert made.shm_size == (f"{8 * gpus}Gi" if gpus else None)
    assert made.body() == ({"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {})


def test_steps_without_gpus_have_none() -> None:
    assert found({"num_gpus": 2}, {"num_gpus": 2}).gpus == 0


def test_what_cannot_be_given() -> None:
    assert told({"limits": {"cpu": "two"}}, {}) == (
        "limits.cpu of step 'train': 'two' is no quantity; write for example '500m', '2', '512Mi' or '4Gi'."
    )
    assert told({}, {"requests": {"memory": "lots"}}).startswith("requests.memory of the step's profile: 'lots'")
    assert told({"num_gpus": -1}, {}, "gpu") == "Invalid GPU request: -1. Must be a positive integer."


def test_a_request_above_its_limit_names_both() -> None:
    assert told({"limits": {"cpu": "1"}}, {"requests": {"cpu": "1500m"}}) == (
        "requests.cpu of the step's profile is 1500m, more than limits.cpu of step 'train', 1."
    )
    found({"limits": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}})
