from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.docker.resources import Resources, resources_of
from nemo_airflow_provider.errors import StartError
from tests.unit.backends.docker.make import config, executor

MI, GI = 2**20, 2**30


def limits(**values: str) -> dict[str, Any]:
    return {"limits": values}


@pytest.mark.parametrize(
    ("own", "profile", "expected"),
    [
        ({}, {}, Resources()),
        (limits(cpu="500m"), {}, Resources(nano_cpus=500_000_000)),
        (limits(cpu="2.5"), {}, Resources(nano_cpus=2_500_000_000)),
        (limits(memory="64Mi"), {}, Resources(memory_bytes=64 * MI)),
        ({}, limits(cpu="2", memory="1Gi"), Resources(nano_cpus=2 * 10**9, memory_bytes=GI)),
        # Field by field: what the step leaves open is the profile's.
        (limits(cpu="1"), limits(cpu="2", memory="1Gi"), Resources(nano_cpus=10**9, memory_bytes=GI)),
        (limits(memory="8M"), limits(cpu="2", memory="1Gi"), Resources(nano_cpus=2 * 10**9, memory_bytes=8 * 10**6)),
        # An engine has limits only.
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": "2"}}, Resources()),
        ({"shm_size": "128Mi"}, {"shm_size": "1Gi"}, Resources(shm_bytes=128 * MI)),
        ({}, {"shm_size": "1Gi"}, Resources(shm_bytes=GI)),
        ({"num_gpus": 3}, {"num_gpus": 2}, Resources()),
    ],
)
def test_step_over_profile(own: dict[str, Any], profile: dict[str, Any], expected: Resources) -> None:
    assert resources_of("fit", executor(**own), config(resources=profile)) == expected


@pytest.mark.parametrize(
    ("own", "profile", "gpus"),
    [
        ({}, {}, 1),
        ({}, {"num_gpus": 3}, 3),
        ({}, {"num_gpus": 3, "resources": {"num_gpus": 2}}, 2),
        ({"num_gpus": 4}, {"num_gpus": 3, "resources": {"num_gpus": 2}}, 4),
    ],
)
def test_gpus_and_their_shared_memory(own: dict[str, Any], profile: dict[str, Any], gpus: int) -> None:
    found = resources_of("fit", executor("gpu", **own), config(**profile))
    assert found == Resources(gpus=gpus, shm_bytes=gpus * 8 * GI)


@pytest.mark.parametrize(
    ("own", "profile", "expected"), [("1Gi", "2Gi", GI), ("1.5Gi", None, 3 * GI // 2), (None, "2G", 2 * 10**9)]
)
def test_shared_memory_that_is_asked_for_beats_the_rule(own: str | None, profile: str | None, expected: int) -> None:
    found = resources_of("fit", executor("gpu", num_gpus=2, shm_size=own), config(resources={"shm_size": profile}))
    assert found.shm_bytes == expected


@pytest.mark.parametrize(
    ("own", "profile", "number"),
    [({"num_gpus": 0}, {}, 0), ({"num_gpus": -1}, {}, -1), ({}, {"num_gpus": 0}, 0)],
)
def test_numbers_of_gpus_that_are_none(own: dict[str, Any], profile: dict[str, Any], number: int) -> None:
    with pytest.raises(StartError) as told:
        resources_of("fit", executor("gpu", **own), config(**profile))
    assert str(told.value) == f"Invalid GPU request: {number}. Must be a positive integer."


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (limits(cpu="many"), "limits.cpu of step 'fit': 'many' is no quantity; write for example"),
        (limits(memory="-1Gi"), "limits.memory of step 'fit': '-1Gi' is no quantity"),
        # The engine takes 0 for "no limit", and less than a hundredth of a CPU for none or for an error.
        (limits(cpu="0"), "limits.cpu of step 'fit': '0' is less than 10m (a hundredth of a CPU)"),
        (limits(cpu="9m"), "limits.cpu of step 'fit': '9m' is less than 10m"),
        (limits(memory="0"), "limits.memory of step 'fit': '0' is no size of memory; it must be more than 0"),
        ({"shm_size": "0Mi"}, "shm_size of step 'fit': '0Mi' is no size of memory; it must be more than 0"),
        # More than the engine's numbers hold.
        (limits(cpu="1e99"), "limits.cpu of step 'fit': '1e99' is more than any host has"),
        (limits(cpu="1000001"), "limits.cpu of step 'fit': '1000001' is more than any host has"),
        (limits(memory="8Ei"), "limits.memory of step 'fit': '8Ei' is more than any host has"),
        ({"shm_size": "99999999999999Gi"}, "is more than any host has"),
    ],
)
def test_what_cannot_be_given_is_refused(own: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StartError) as told:
        resources_of("fit", executor(**own), config())
    assert sentence in str(told.value)


def test_a_profiles_own_mistake_is_told_as_that() -> None:
    with pytest.raises(StartError) as told:
        resources_of("fit", executor(), config(resources=limits(cpu="2 cores")))
    assert "limits.cpu of the step's profile: '2 cores' is no quantity" in str(told.value)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (Resources(), {}),
        (Resources(nano_cpus=2_500_000_000), {"CpuPeriod": 100_000, "CpuQuota": 250_000}),
        (Resources(nano_cpus=10_000_000), {"CpuPeriod": 100_000, "CpuQuota": 1_000}),
        # Without swap beyond it, a memory limit is one.
        (Resources(memory_bytes=7), {"Memory": 7, "MemorySwap": 7}),
        (Resources(shm_bytes=9, gpus=1), {"ShmSize": 9}),
    ],
)
def test_the_engines_words(resources: Resources, expected: dict[str, Any]) -> None:
    assert resources.host_config() == expected
