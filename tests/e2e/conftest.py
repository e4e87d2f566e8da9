"""One Airflow for all tests of whole jobs: starting one takes as long as many jobs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.lab import PROFILES, Lab
from tests.stack import AirflowStack, engines
from tests.stack.database import fresh_database

#: So that the middle of a log is left out of Airflow's with few lines.
TASK_LOG_LINES = 50

#: So that a paused step gives its worker slot back while a test looks on, and not before the test has seen it hold one.
PAUSE_HOLD_SECONDS = 3


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """On Postgres with two API workers where there is a Postgres, else on SQLite."""
    home = tmp_path_factory.mktemp("lab") / "home"
    # There from the start: Airflow looks for new files every five minutes only.
    shutil.copytree(Path(__file__).with_name("dags"), home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    with ExitStack() as stack:
        database = None
        if not engines.missing("postgres"):
            database = stack.enter_context(fresh_database(os.environ["NEMO_TEST_POSTGRES"]))
        airflow = AirflowStack(
            home,
            database=database,
            api_workers=2 if database else 1,
            environ={
                "AIRFLOW__NEMO__TASK_LOG_MAX_LINES": str(TASK_LOG_LINES),
                "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
                "AIRFLOW__NEMO__PAUSE_HOLD_SECONDS": str(PAUSE_HOLD_SECONDS),
            },
            profiles=PROFILES.format(root=home / "workloads"),
        )
        made = Lab(stack.enter_context(airflow))
        stack.callback(made.http.close)
        yield made
