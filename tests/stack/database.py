"""A fresh Postgres database for one stack."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy


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
