"""The DAG `nemo-sweep`: the chores and the default queue's engines in one task, and a task for each other queue.

An engine that is bound to a host is swept where its steps run, which its profile's `airflow: {queue}` says.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from nemo_airflow_provider import settings
from nemo_airflow_provider.operators.sweep import SweepOperator
from nemo_airflow_provider.profiles import Profile, ProfileSet
from nemo_airflow_provider.sweep import SWEEP_DAG_ID

DOC = (
    "Tidies up after NeMo jobs: ends cancels that nobody obeys, stops workloads that nobody needs any more, stores the "
    "rest of their output, and removes what is left once its time is over. Leave it running."
)

#: A queue without a worker must not keep the others from being swept.
_RUN_SECONDS = 300
_TASK_SECONDS = 120


def sweep_dag(profiles: ProfileSet | None) -> DAG:
    """The sweep.

    :param profiles: None when the configuration is broken: engines are left alone until it is mended
    """
    seconds = settings.sweep_seconds()
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
    queues = _by_queue(profiles.profiles if profiles else ())
    for queue, names_of in queues.items():
        placement = {"queue": queue} if queue else {}
        SweepOperator(
            task_id=_task_id(queue),
            task_display_name=f"sweep: {queue}" if queue else "sweep",
            profiles=names_of,
            chores=queue is None,
            retries=0,
            execution_timeout=timedelta(seconds=_TASK_SECONDS),
            dag=dag,
            **placement,
        )
    return dag


def _by_queue(profiles: tuple[Profile, ...]) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {None: []}
    for profile in profiles:
        # What every worker reaches needs no place of its own.
        queue = profile.config.airflow.queue if profile.config.is_bound_to_host else None
        found.setdefault(queue, []).append(str(profile))
    return found


def _task_id(queue: str | None) -> str:
    """A queue may be called what no task may."""
    return "sweep" if queue is None else f"sweep-{hashlib.sha256(queue.encode()).hexdigest()[:8]}"
