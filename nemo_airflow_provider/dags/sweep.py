"""The DAG `nemo-sweep`: the chores and the default queue's engines in one task, and a task for each other queue.

An engine that is bound to a host is swept where its steps run, which its profile's `airflow: {executor, queue}` says.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.operators.placement import placement_of
from nemo_airflow_provider.operators.sweep import SweepOperator
from nemo_airflow_provider.profiles import Profile, ProfileSet
from nemo_airflow_provider.sweep import SWEEP_DAG_ID

log = logging.getLogger(__name__)

DOC = (
    "Tidies up after NeMo jobs: ends cancels that nobody obeys, stops workloads that nobody needs any more, stores the "
    "rest of their output, and removes what is left once its time is over. Leave it running."
)

#: The option's default.
_DEFAULT_SECONDS = 60
#: A queue without a worker must not keep the others from being swept.
_RUN_SECONDS = 300
_TASK_SECONDS = 120


def sweep_dag(profiles: ProfileSet | None) -> DAG:
    """The sweep.

    :param profiles: None when the configuration is broken: engines are left alone until it is mended
    """
    seconds = _seconds()
    dag = DAG(
        dag_id=SWEEP_DAG_ID,
        dag_display_name="NeMo jobs: sweep",
        description="Tidies up after NeMo jobs",
        doc_md=DOC,
        schedule=timedelta(seconds=seconds) if seconds else None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        is_paused_upon_creation=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(seconds=_RUN_SECONDS),
        tags=["nemo-sweep"],
    )
    for place, names_of in _by_place(profiles.profiles if profiles else ()).items():
        SweepOperator(
            task_id=place.task_id,
            task_display_name=place.title,
            profiles=names_of,
            chores=place == _DEFAULT_PLACE,
            retries=0,
            execution_timeout=timedelta(seconds=_TASK_SECONDS),
            dag=dag,
            **place.arguments,
        )
    return dag


def _seconds() -> int:
    """Between two sweeps. A wrong option must not end all sweeping; `airflow nemo check` tells it."""
    try:
        return settings.sweep_seconds()
    except ConfigError as error:
        log.warning("%s; it counts as %d", error, _DEFAULT_SECONDS)
        return _DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class _Place:
    """Where Airflow runs tasks; None: the installation's default."""

    executor: str | None = None
    queue: str | None = None

    @property
    def arguments(self) -> dict[str, str]:
        """Of the operator."""
        return {name: value for name, value in (("executor", self.executor), ("queue", self.queue)) if value}

    @property
    def title(self) -> str:
        """For people."""
        words = ", ".join(self.arguments.values())
        return f"sweep: {words}" if words else "sweep"

    @property
    def task_id(self) -> str:
        """A queue may be called what no task may."""
        if not self.arguments:
            return "sweep"
        return f"sweep-{hashlib.sha256(json.dumps(self.arguments, sort_keys=True).encode()).hexdigest()[:8]}"


_DEFAULT_PLACE = _Place()


def _by_place(profiles: tuple[Profile, ...]) -> dict[_Place, list[str]]:
    found: dict[_Place, list[str]] = {_DEFAULT_PLACE: []}
    for profile in profiles:
        place = _DEFAULT_PLACE
        if profile.config.is_bound_to_host:  # what every worker reaches needs no place of its own
            # No step runs where Airflow has no such executor, but earlier ones may have run on its queue.
            placement, _ = placement_of(profile)
            place = _Place(placement.get("executor"), placement.get("queue"))
        found.setdefault(place, []).append(str(profile))
    return found
