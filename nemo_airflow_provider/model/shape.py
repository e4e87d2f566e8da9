"""A job shape: what two jobs must share to share a DAG. Stored as one immutable Airflow Variable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.limits import MAX_STEPS


@dataclass(frozen=True, slots=True)
class Shape:
    """Workspace and ordered (step name, provider, profile name)."""

    workspace: str
    steps: tuple[tuple[str, str, str], ...]

    @property
    def dag_id(self) -> str:
        """The DAG id that carries the shape."""
        return names.shape_dag_id(self.workspace, self.steps)

    @property
    def display_name(self) -> str:
        """What people see in Airflow's web UI: `default: train → evaluate`."""
        text = f"{self.workspace}: {' → '.join(step for step, _, _ in self.steps)}"
        return text if len(text) <= 200 else f"{text[:199]}…"

    def dumps(self) -> str:
        """The Variable's value."""
        return json.dumps({"workspace": self.workspace, "steps": [list(step) for step in self.steps]})


def shape_of(workspace: str, steps: Sequence[tuple[str, str, str]]) -> Shape:
    """The shape of a job specification's steps."""
    return Shape(workspace, tuple(steps))


def is_shape(dag_id: str) -> bool:
    """Whether a DAG id may be that of a shape: one of ours, and no workspace's anchor."""
    workspace = names.workspace_of_dag(dag_id)
    return workspace is not None and dag_id != names.anchor_dag_id(workspace)


def loads(dag_id: str, text: str) -> Shape:
    """A shape out of its Variable.

    :raises ValueError: the Variable was changed by hand: it is not the shape of `dag_id`, or of no job
    """
    data = json.loads(text)
    try:
        shape = Shape(data["workspace"], tuple((str(n), str(p), str(f)) for n, p, f in data["steps"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"the stored shape of {dag_id} cannot be read: {error!r}") from error
    if shape.dag_id != dag_id:
        raise ValueError(f"the stored shape of {dag_id} belongs to {shape.dag_id}")
    if len(shape.steps) > MAX_STEPS:
        raise ValueError(
            f"the stored shape of {dag_id} has {len(shape.steps)} steps, and a job has at most {MAX_STEPS}"
        )
    return shape
