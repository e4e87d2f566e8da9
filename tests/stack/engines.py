"""What a test may need from the machine: is it there, and what to do when it is not.

A missing engine skips the test, with one sentence; named in `NEMO_TEST_REQUIRE` (a comma list) it fails it.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from functools import cache

import pytest
import sqlalchemy

from tests.busybox import busybox
from tests.stack import kubernetes


def _postgres() -> str | None:
    url = os.environ.get("NEMO_TEST_POSTGRES")
    if not url:
        return (
            "Set NEMO_TEST_POSTGRES to the SQLAlchemy URL of a database whose user may create databases, "
            "for example postgresql+psycopg2://nemo:nemo@127.0.0.1/postgres."
        )
    engine = sqlalchemy.create_engine(url)
    try:
        engine.connect().close()
    except sqlalchemy.exc.SQLAlchemyError as error:
        return f"The database in NEMO_TEST_POSTGRES does not answer: {error}"
    finally:
        engine.dispose()
    return None


def _upstream() -> str | None:
    path = os.environ.get("NEMO_TEST_UPSTREAM")
    if not path:
        return (
            "Set NEMO_TEST_UPSTREAM to the `nemo` executable of an environment with nemo-helix[services]==0.8.1 "
            "(Python 3.12 or newer)."
        )
    return None if os.access(path, os.X_OK) else f"NEMO_TEST_UPSTREAM={path} is not an executable file."


def _docker() -> str | None:
    if busybox() is None:
        return (
            "Install busybox-static, or set NEMO_TEST_BUSYBOX to a busybox that needs no library: "
            "images for Docker are made of it."
        )
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not address.startswith("unix://"):
        return None  # a remote daemon: the test itself will see
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address.removeprefix("unix://"))
        except OSError as error:
            return f"No Docker daemon answers at {address} ({error}); start one or set DOCKER_HOST."
    return None


def _owned_docker() -> str | None:
    if os.environ.get("NEMO_TEST_OWNS_ENGINES") != "1":
        return "Set NEMO_TEST_OWNS_ENGINES=1 where tests may start, kill and restart a Docker engine of their own."
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        return "A Docker engine of the tests' own needs root and the program dockerd (package docker.io)."
    return _docker()


PROBES: dict[str, Callable[[], str | None]] = {
    "docker": _docker,
    "kubernetes": kubernetes.missing,
    "owned_docker": _owned_docker,
    "owned_kubernetes": kubernetes.owned_missing,
    "postgres": _postgres,
    "upstream": _upstream,
}


@cache
def missing(name: str) -> str | None:
    """Why the engine cannot be used; None when it can."""
    return PROBES[name]()


def required() -> set[str]:
    """The engines of `NEMO_TEST_REQUIRE`.

    :raises pytest.UsageError: one of them is unknown
    """
    names = {name.strip() for name in os.environ.get("NEMO_TEST_REQUIRE", "").split(",")} - {""}
    if unknown := names - set(PROBES):
        raise pytest.UsageError(
            f"NEMO_TEST_REQUIRE names {', '.join(sorted(unknown))}; known are {', '.join(sorted(PROBES))}."
        )
    return names


def require(name: str) -> None:
    """Go on if the engine is there; else skip the test, or fail it where the engine is required."""
    reason = missing(name)
    if reason is None:
        return
    if name in required():
        pytest.fail(f"{name} is required (NEMO_TEST_REQUIRE) but missing: {reason}", pytrace=False)
    pytest.skip(reason)
