"""One Airflow for all tests of whole jobs: starting one takes as long as many jobs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, profiles
from tests.stack import AirflowStack, engines, kubernetes
from tests.stack.database import fresh_database

#: So that the middle of a log is left out of Airflow's with few lines.
TASK_LOG_LINES = 50

#: So that a paused step gives its worker slot back while a test looks on, and not before the test has seen it hold one.
PAUSE_HOLD_SECONDS = 3

#: So that lost processes are noticed while a test waits.
LOSSES_NOTICED = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
}

#: Variables beside those of the database: a custom secrets backend reads them from this file beside the home.
VARIABLES_FILE = "variables.json"


def secret_settings(variables: Path) -> dict[str, str]:
    """A second workspace with a secret for the first, and all three kinds of secrets backends."""
    variables.write_text("{}")
    return {
        "AIRFLOW__NEMO__WORKSPACES": '["default", "shared"]',
        "AIRFLOW__NEMO__SECRET_GRANTS": '[["default", "shared/granted"]]',
        "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"variables_file_path": str(variables)}),
        "AIRFLOW_VAR_NEMO_SECRET.DEFAULT.IN-ENVIRONMENT": "value-of-the-environment",
    }


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
                **LOSSES_NOTICED,
                **secret_settings(home.parent / VARIABLES_FILE),
                **({} if engines.missing("kubernetes") else kubernetes.airflow_settings()),
            },
            profiles=profiles(home),
        )
        made = Lab(stack.enter_context(airflow))
        stack.callback(made.http.close)
        yield made
