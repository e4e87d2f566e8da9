"""Airflow Variables by the secrets backends of this API server: environment, custom ones, metastore."""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf, ensure_secrets_loaded
from airflow.models.dag import DagModel
from airflow.secrets.metastore import MetastoreBackend

from nemo_airflow_provider.service import outage
from nemo_airflow_provider.service.database import session_scope
from nemo_airflow_provider.variables import look_up


def team_of(dag_id: str) -> str | None:
    """The team that owns a DAG. One query less where there are no teams."""
    if not conf.getboolean("core", "multi_team", fallback=False):
        return None
    with outage.told():
        team: str | None = DagModel.get_team_name(dag_id)
    return team


def is_set(key: str, team: str | None) -> bool:
    """Whether the Variable has a value for this team's tasks; see `value_of`."""
    return value_of(key, team) is not None


def value_of(key: str, team: str | None) -> str | None:
    """The Variable's value for this team's tasks.

    :raises DatabaseAway: the database is busy or away
    :raises Unavailable: a backend failed, and no other has it
    """
    options = {} if team is None else {"team_name": team}

    def ask(backend: Any) -> str | None:
        if not isinstance(backend, MetastoreBackend):
            value: str | None = backend.get_variable(key=key, **options)
            return value
        # By itself it would take the thread's session, which is not ours to commit.
        with session_scope() as session:
            stored: str | None = backend.get_variable(key=key, session=session, **options)
            return stored

    return look_up(ensure_secrets_loaded(), ask)
