"""Options, markers and stacks for every test.

`tests/stack/engines.py` says which environment variables name outside engines, and how to require them.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.stack import engines


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(engine, ...): skipped, or failed if required, where one is missing")
    engines.required()  # a misspelt name is told at once
    # Whatever imports Airflow in this process finds an empty home, not the developer's.
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="nemo-test-airflow-")
    config.add_cleanup(home.cleanup)
    os.environ["AIRFLOW_HOME"] = home.name
    # So that an interrupted run ends the Airflow it has started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    there = [name for name in engines.PROBES if not engines.missing(name)]
    return [f"engines: {', '.join(there) or 'none'}; required: {', '.join(engines.required()) or 'none'}"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            engines.require(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if hasattr(value, "describe"):
                report.sections.append((f"Airflow of {name}", value.describe()))
    return report


@pytest.fixture(scope="session")
def sqlite_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Airflow on SQLite for the whole session, everybody admin; with Docker profiles where an engine answers."""
    from tests.stack import AirflowStack

    home = tmp_path_factory.mktemp("sqlite") / "home"
    profiles = {
        "platform": {"runtime": "docker"},
        "jobs": {"executor_defaults": {"subprocess": {"working_directory": str(home / "workloads")}}},
    }
    with AirflowStack(home, profiles=json.dumps(profiles)) as stack:
        yield stack


@pytest.fixture(scope="session")
def postgres_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Airflow on Postgres with two API workers for the whole session, everybody admin."""
    engines.require("postgres")
    from tests.stack import AirflowStack
    from tests.stack.database import fresh_database

    home = tmp_path_factory.mktemp("postgres") / "home"
    with (
        fresh_database(os.environ["NEMO_TEST_POSTGRES"]) as url,
        AirflowStack(home, database=url, api_workers=2) as stack,
    ):
        yield stack


@pytest.fixture(scope="session")
def upstream_nemo() -> str:
    """The unmodified upstream client's `nemo`."""
    engines.require("upstream")
    return os.environ["NEMO_TEST_UPSTREAM"]
