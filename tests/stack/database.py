"""A fresh Postgres database for one stack, and its outage."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy

from tests.waiting import wait_until


@contextmanager
def fresh_database(admin_url: str) -> Iterator[str]:
    """Make a database next to the one of `admin_url`, and drop it at the end, whoever is still connected.

    :return: its SQLAlchemy URL
    """
    name = f"nemo_test_{secrets.token_hex(6)}"
    admin = sqlalchemy.create_engine(admin_url, isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            # A cluster made without a locale has SQL_ASCII in its usual template.
            connection.execute(sqlalchemy.text(f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' TEMPLATE template0"))
        try:
            yield admin.url.set(database=name).render_as_string(hide_password=False)
        finally:
            with admin.connect() as connection:
                connection.execute(sqlalchemy.text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    finally:
        admin.dispose()


@contextmanager
def unreachable(admin_url: str, name: str) -> Iterator[None]:
    """For the length of the block nobody reaches a database: connections are cut, new ones are refused.

    :param admin_url: of another database, by a user that owns this one
    """
    admin = sqlalchemy.create_engine(admin_url, isolation_level="AUTOCOMMIT")
    cut = sqlalchemy.text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name")
    try:
        with admin.connect() as connection:
            connection.execute(sqlalchemy.text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
            try:
                wait_until(lambda: not connection.execute(cut, {"name": name}).scalar(), 60, "the last connection")
                yield
            finally:
                connection.execute(sqlalchemy.text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))
    finally:
        admin.dispose()
