"""`compute_resources` of a DAG's author → those of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model.body import unknown_keys
from nemo_airflow_provider.model.quantities import nano_cpus, whole_bytes
from nemo_airflow_provider.model.spec import ComputeResources
from nemo_airflow_provider.operators.conf import problems_of

_GPU, _DISTRIBUTED = "gpu", "gpu_distributed"
_READ: Mapping[str, Callable[[str], int]] = {"cpu": nano_cpus, "memory": whole_bytes}


def stored_resources(value: object) -> dict[str, Any]:
    """What is stored of them; numbers are written out, as in `{"cpu": 2}`.

    :raises InvalidJob: unknown keys, or a value that cannot be right
    """
    if not isinstance(value, Mapping):
        raise InvalidJob(f"compute_resources: {value!r} is no mapping.")
    given = {key: _written_out(each) if key in ("requests", "limits") else each for key, each in value.items()}
    try:
        known = ComputeResources.model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidJob(f"compute_resources: {problems_of(error)}") from None
    if unknown := sorted(unknown_keys(given, known)):
        allowed = ", ".join(ComputeResources.model_fields)
        raise InvalidJob(f"compute_resources: unknown keys {', '.join(unknown)}; there are {allowed}.")
    for group in ("requests", "limits"):
        for name, read in _READ.items():
            _check_quantity(f"{group}.{name}", known[group][name], read)
    return known


def check_provider(value: object, provider: str) -> None:
    """Whether the profile's provider has what is asked for: GPUs, several nodes.

    :raises InvalidJob: it has not
    """
    asked = stored_resources(value)
    if asked["num_gpus"] and provider not in (_GPU, _DISTRIBUTED):
        raise InvalidJob(
            f"compute_resources: num_gpus: a step of provider '{provider}' gets no GPUs. Leave it out, or choose a "
            f"profile of provider {_GPU} or {_DISTRIBUTED}."
        )
    if asked["num_nodes"] > 1 and provider != _DISTRIBUTED:
        raise InvalidJob(
            f"compute_resources: num_nodes: a step of provider '{provider}' runs on one node. Leave it out, or choose "
            f"a profile of provider {_DISTRIBUTED}."
        )


def _written_out(quantities: object) -> object:
    if not isinstance(quantities, Mapping):
        return quantities
    return {
        name: str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each
        for name, each in quantities.items()
    }


def _check_quantity(field: str, quantity: str | None, read: Callable[[str], int]) -> None:
    if quantity is None:
        return
    try:
        read(quantity)
    except ValueError as error:
        raise InvalidJob(f"compute_resources: {field}: {error}.") from None
