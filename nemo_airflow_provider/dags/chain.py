"""Steps → tasks of a DAG: the steps' names, each the operator of its profile's backend, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow.sdk import DAG

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import STEP_RETRIES
from nemo_airflow_provider.operators.placement import placement_of
from nemo_airflow_provider.operators.source import StepSource
from nemo_airflow_provider.operators.step import operator_class
from nemo_airflow_provider.profiles import ProfileSet


def add_chain(
    dag: DAG,
    steps: Iterable[tuple[str, str, str]],
    profiles: ProfileSet | None,
    source: Callable[[int, str | None], StepSource],
) -> None:
    """Add a task for each step.

    :param steps: name, provider and profile name of each, in order
    :param profiles: None when the configuration is broken; the steps then fail with its message
    :param source: makes the source of a step out of its place and of why it must not run, if it must not
    """
    previous = None
    for index, (name, provider, profile_name) in enumerate(steps):
        profile = profiles.resolve(provider, profile_name) if profiles else None
        placement, refusal = placement_of(profile)
        task = operator_class(profile)(
            task_id=names.task_id_of(name),
            task_display_name=name,
            profile=f"{provider}/{profile_name}",
            source=source(index, refusal),
            # Whoever reads the run later tells generations by this number alone.
            retries=STEP_RETRIES,
            dag=dag,
            **{key: value for key, value in placement.items() if key not in dag.default_args},
        )
        if previous is not None:
            previous >> task
        previous = task
