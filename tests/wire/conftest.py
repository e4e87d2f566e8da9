"""Stacks and clients of the wire tests: one open Airflow, and one with users and profiles of every backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.stack import AirflowStack
from tests.wire.jobs import Jobs
from tests.wire.upstream import Client, Command

PROFILES = Path(__file__).with_name("profiles.yaml")


@pytest.fixture(scope="session")
def http(sqlite_stack: AirflowStack) -> Iterator[httpx.Client]:
    """Plain HTTP, without any token."""
    with sqlite_stack.client() as client:
        yield client


@pytest.fixture(scope="session")
def jobs(http: httpx.Client) -> Jobs:
    return Jobs(http)


@pytest.fixture(scope="session")
def client(
    sqlite_stack: AirflowStack, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Upstream's Python client."""
    with Client(upstream_nemo, sqlite_stack.url, tmp_path_factory.mktemp("sdk")) as started:
        yield started


@pytest.fixture(scope="session")
def nemo(sqlite_stack: AirflowStack, upstream_nemo: str, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Upstream's command line."""
    return Command(upstream_nemo, sqlite_stack.url, tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="session")
def users_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    """An Airflow with users, two workspaces and profiles of every backend.

    `outsider` has no role, so Airflow lets it read nothing.
    """
    folder = tmp_path_factory.mktemp("users")
    with AirflowStack(
        folder / "home",
        users={"viewer": "viewer", "user": "user", "admin": "admin", "outsider": ""},
        profiles=PROFILES.read_text().replace("WORKLOADS", str(folder / "workloads")),
        environ={
            "AIRFLOW__NEMO__WORKSPACES": json.dumps(["default", "research"]),
            "AIRFLOW__NEMO__PROBE_ENGINES": "false",
        },
    ) as stack:
        yield stack
