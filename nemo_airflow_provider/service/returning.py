"""A shape that was retired comes back when a job of it is run again on Airflow's pages.

Airflow runs nothing of a DAG that no file defines: such a run would stay queued for ever.
"""

from __future__ import annotations

from airflow.models.dagrun import DagRun
from airflow.models.variable import Variable
from sqlalchemy import exists, literal, select

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.shape import is_shape, shape_of
from nemo_airflow_provider.model.status import RUN_OVER
from nemo_airflow_provider.service import database
from nemo_airflow_provider.service.database import COLUMNS, session_scope, to_row
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.view import spec_of


def runs_without_shape() -> list[RunRow]:
    """Runs of our DAGs that are not over and whose shape is not stored, without conf."""
    stored = exists().where(Variable.key == literal(names.SHAPE_VARIABLE_PREFIX) + DagRun.dag_id)
    ours = DagRun.dag_id.startswith(names.DAG_PREFIX, autoescape=True)
    statement = select(*COLUMNS).where(DagRun._state.not_in(RUN_OVER), ours, ~stored)
    with session_scope() as session:
        rows = [to_row(row, None) for row in session.execute(statement)]
    return [row for row in rows if is_shape(row.dag_id)]


def restore_shapes() -> int:
    """Store again what those runs need, whatever `[nemo] max_shapes` says: it is a limit for new jobs; how many."""
    shapes = {}
    for row in database.with_conf(runs_without_shape()):
        spec = spec_of(row)
        if spec is not None and row.workspace is not None:
            shapes[row.dag_id] = shape_of(row.workspace, spec.platform_spec.shape())
    for dag_id, shape in shapes.items():
        database.store_shape(dag_id, shape.dumps())
        database.request_parse(names.anchor_dag_id(shape.workspace))
    return len(shapes)
