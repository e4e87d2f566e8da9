"""An Airflow database that is busy or away, as `Unavailable`: it is nobody's mistake, and worth another try."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow import settings
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from nemo_airflow_provider.errors import Unavailable

log = logging.getLogger(__name__)


@contextmanager
def told() -> Iterator[None]:
    """Raise what the database cannot do now as `Unavailable`; a query that is wrong stays what it is."""
    try:
        yield
    except (OperationalError, PoolTimeout) as error:
        # Not for who asked: it may hold the query, its values and where the database is.
        log.warning("Airflow's database: %s", _reason(error))
        raise unavailable(done=_may_be_done(error)) from error


def unavailable(*, done: bool) -> Unavailable:
    """The error to raise.

    :param done: whether the database may have done what it was asked for
    """
    if done:
        return Unavailable("Airflow's database was busy or away. Look whether it was done before you try again.")
    text = "Airflow's database was busy or away. Nothing was created or changed; try again."
    if is_sqlite():
        text += " SQLite takes one writer at a time: where many work at once, give Airflow a Postgres."
    return Unavailable(text)


def is_sqlite() -> bool:
    """Whether the database is a file of this host, on which an error always means that nothing was written."""
    return str(settings.SQL_ALCHEMY_CONN).startswith("sqlite")


def _may_be_done(error: SQLAlchemyError) -> bool:
    # The connection may have been lost after the server had committed, with its word for it.
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _reason(error: SQLAlchemyError) -> object:
    return error.orig if isinstance(error, DBAPIError) else error
