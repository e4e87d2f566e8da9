"""An Airflow database that is busy or away, as `DatabaseAway`: it is nobody's mistake, and worth another try."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from airflow import settings
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from nemo_airflow_provider.service.away import DatabaseAway

log = logging.getLogger(__name__)

#: SQLite's primary codes, and MySQL's for a lock that was waited for too long, a deadlock, too many connections, and a
#: server that cannot be reached or was lost. MySQL's begin at 1000.
_PASSING_NUMBERS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, 1040, 1205, 1213, 2002, 2003, 2006, 2013})
#: Classes of SQLSTATE, and one state: connection, rolled back, no resources, lock not to be had, operator's hand.
_PASSING_STATES = ("08", "40", "53", "55P03", "57")
#: Of those the one that somebody has to mend.
_DISK_FULL = "53100"


@contextmanager
def told() -> Iterator[None]:
    """Raise what the database cannot do now as `DatabaseAway`; what another try would not mend stays what it is."""
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        if not _is_passing(error):
            raise
        # Not for who asked: it may hold the query, its values and where the database is.
        log.warning("Airflow's database: %s", error.orig if isinstance(error, DBAPIError) else error)
        raise DatabaseAway("Airflow's database was busy or away.", hint=_hint(), undone=_is_undone(error)) from error


def refused() -> DatabaseAway:
    """The error for what Airflow itself tells of its database: that there was an error, not which."""
    return DatabaseAway(
        "Airflow's database refused what was asked; the log of its API server says why, and it may pass.", hint=_hint()
    )


def _hint() -> str:
    if not str(settings.SQL_ALCHEMY_CONN).startswith("sqlite"):
        return ""
    return "SQLite takes one writer at a time: where many work at once, give Airflow a Postgres."


def _is_passing(error: DBAPIError | PoolTimeout) -> bool:
    """Whether the same may succeed in a moment. By codes: texts are translated."""
    if isinstance(error, PoolTimeout) or error.connection_invalidated:
        return True
    code = _code(error)
    if code is None:
        # psycopg2 has no SQLSTATE for a connection that could not be made.
        return isinstance(error, OperationalError) and hasattr(error.orig, "pgcode")
    if isinstance(code, int):
        return code in _PASSING_NUMBERS
    return code.startswith(_PASSING_STATES) and code != _DISK_FULL


def _is_undone(error: DBAPIError | PoolTimeout) -> bool:
    # With its connection the server's word is lost; it may have committed before.
    return isinstance(error, PoolTimeout) or not (error.connection_invalidated or _code(error) is None)


def _code(error: DBAPIError) -> int | str | None:
    """The database's own code: a number of SQLite's or MySQL's, or an SQLSTATE."""
    raised = error.orig
    extended = getattr(raised, "sqlite_errorcode", None)
    if isinstance(extended, int):
        return extended & 0xFF
    first = next(iter(getattr(raised, "args", ())), None)
    if isinstance(first, int):
        return first
    state = getattr(raised, "sqlstate", None) or getattr(raised, "pgcode", None)
    return state if isinstance(state, str) else None
