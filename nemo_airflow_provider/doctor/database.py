"""What the checks read of Airflow's database."""

from __future__ import annotations

from collections.abc import Collection

from airflow import settings
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from airflow.utils.state import JobState
from sqlalchemy import inspect, select
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from nemo_airflow_provider.doctor.facts import Anchor, Database, DatabaseTrouble
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.shape import is_shape
from nemo_airflow_provider.service.database import shape_count
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.view import spec_of
from nemo_airflow_provider.sweep import SWEEP_DAG_ID

#: The newest runs that are looked at; each conf is read and validated.
MOST_RUNS = 10_000
_RUNS_AT_ONCE = 100
#: Job types of Airflow by the name of the command that starts them.
_PARTS = {"scheduler": "SchedulerJob", "dag-processor": "DagProcessorJob"}
_FILE = "nemo_jobs.py"


def dialect() -> str:
    """The database's kind, as in `postgresql`, whether it answers or not."""
    return str(settings.SQL_ALCHEMY_CONN or "").partition(":")[0].partition("+")[0]


def read(workspaces: Collection[str]) -> Database | DatabaseTrouble:
    """What the database says, or why it says nothing."""
    try:
        with create_session(scoped=False) as session:
            if missing := _not_migrated(session):
                return DatabaseTrouble(missing, "Migrate it: airflow db migrate")
            return _read(session, workspaces)
    except (ImportError, NoSuchModuleError) as error:
        return DatabaseTrouble(f"Its driver is not installed: {error}.", "Install the driver.")
    except DBAPIError as error:
        return DatabaseTrouble(
            f"It does not answer: {_one_line(error.orig)}", "Start it, or correct [database] sql_alchemy_conn."
        )
    except SQLAlchemyError as error:
        return DatabaseTrouble(f"It cannot be used: {_one_line(error)}", "Correct [database] sql_alchemy_conn.")


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def _not_migrated(session: Session) -> str | None:
    tables = set(inspect(session.get_bind()).get_table_names())
    if "dag_run" not in tables:
        return "It has no tables of Airflow."
    if "task_state_store" not in tables:
        return "Its tables are of an older Airflow."
    return None


def _read(session: Session, workspaces: Collection[str]) -> Database:
    runs_read, no_jobs = _no_jobs(session)
    return Database(
        alive={part: _alive(session, job_type) for part, job_type in _PARTS.items()},
        anchors=_anchors(session, workspaces),
        paused=_paused(session),
        import_error=_import_error(session),
        shapes=shape_count(),
        runs_read=runs_read,
        no_jobs=no_jobs,
        pools=frozenset(session.scalars(select(Pool.pool))),
    )


def _alive(session: Session, job_type: str) -> int:
    running = select(Job).where(Job.job_type == job_type, Job.state == JobState.RUNNING)
    return sum(job.is_alive() for job in session.scalars(running))


def _anchors(session: Session, workspaces: Collection[str]) -> dict[str, Anchor]:
    wanted = {names.anchor_dag_id(workspace): workspace for workspace in workspaces}
    statement = select(DagModel.dag_id, DagModel.is_stale).where(DagModel.dag_id.in_(wanted))
    stale: dict[str, bool | None] = {dag_id: is_stale for dag_id, is_stale in session.execute(statement)}
    return {
        workspace: Anchor(known=dag_id in stale, stale=bool(stale.get(dag_id))) for dag_id, workspace in wanted.items()
    }


def _paused(session: Session) -> tuple[str, ...]:
    ours = DagModel.dag_id.startswith(names.DAG_PREFIX, autoescape=True) | (DagModel.dag_id == SWEEP_DAG_ID)
    found = session.scalars(
        select(DagModel.dag_id).where(ours, DagModel.is_paused, ~DagModel.is_stale).order_by(DagModel.dag_id)
    )
    # An anchor has no jobs of its own.
    return tuple(dag_id for dag_id in found if dag_id == SWEEP_DAG_ID or is_shape(dag_id))


def _import_error(session: Session) -> str | None:
    trace = session.scalar(
        select(ParseImportError.stacktrace).where(ParseImportError.filename.endswith(_FILE, autoescape=True)).limit(1)
    )
    if trace is None:
        return None
    lines = [line for line in trace.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "without a reason"


def _no_jobs(session: Session) -> tuple[int, tuple[str, ...]]:
    """How many of the newest runs were looked at, and those that are no jobs; few are in memory at once."""
    statement = (
        select(DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun._state, DagRun.run_after, DagRun.conf)
        .where(DagRun.dag_id.startswith(names.DAG_PREFIX, autoescape=True))
        .order_by(DagRun.id.desc())
        .limit(MOST_RUNS)
        .execution_options(yield_per=_RUNS_AT_ONCE)
    )
    read, found = 0, []
    for pk, dag_id, run_id, state, run_after, conf in session.execute(statement):
        if not is_shape(dag_id):
            continue
        read += 1
        if spec_of(RunRow(pk, dag_id, run_id, state, run_after, clear_number=0, conf=conf)) is None:
            found.append(f"{dag_id} / {run_id}")
    return read, tuple(found)
