"""Names, labels and annotations of objects, and back: pure.

A label's value is encoded where the original may not be one (`names.label_value`); the original stands in an
annotation of the label's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

#: What everything of ours is found by in `kubectl` (job specification contract §7.1).
APP = {"app": "nemo-job"}
#: Says that, and when, a workload was asked to end; in an annotation of what it is made by.
STOP_ASKED = f"{labels.PREFIX}stop-asked-at"


def metadata_of(
    name: str | None,
    own: Mapping[str, str],
    given_labels: Mapping[str, str] | None = None,
    given_annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The `metadata` of an object.

    :param name: None: of a template
    :param own: what it is, see `labels.of_workload`
    :param given_labels: the profile's; they win over what is not needed to find the object again
    :param given_annotations: the profile's
    """
    needed = {label: value for label, value in own.items() if label in labels.IDENTITY}
    encoded = {label: names.label_value(value) for label, value in own.items()}
    originals = {label: value for label, value in own.items() if encoded[label] != value}
    found = {
        "labels": {**APP, **encoded, **(given_labels or {}), **{label: encoded[label] for label in needed}},
        "annotations": {**(given_annotations or {}), **originals},
    }
    return {**({"name": name} if name else {}), **{key: value for key, value in found.items() if value}}


def own_of(thing: Mapping[str, Any]) -> dict[str, str]:
    """What an object is: the inverse of `metadata_of`, as far as its own labels go."""
    metadata = thing.get("metadata") or {}
    found = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    return {label: value for label, value in found.items() if label.startswith(labels.PREFIX)}


def key_of(thing: Mapping[str, Any]) -> WorkloadKey | None:
    """The workload that an object is of; None for one that is not ours."""
    return labels.key_of(own_of(thing))


def run_of(thing: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Workspace, run id and run key of an object; None for one that is not ours."""
    return labels.run_of(own_of(thing))
