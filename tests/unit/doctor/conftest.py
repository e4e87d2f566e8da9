"""An installation that is as it should be, for tests that spoil one thing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.doctor.checks import examine
from nemo_airflow_provider.doctor.configfile import FileReport, inspect
from nemo_airflow_provider.doctor.facts import Anchor, Database, Installation, Workspaces
from nemo_airflow_provider.doctor.findings import Finding, Level

OPTIONS = {
    ("core", "executor"): "LocalExecutor",
    ("core", "auth_manager"): "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
    ("api", "workers"): "2",
    ("api", "base_url"): "https://airflow.example",
    ("scheduler", "scheduler_idle_sleep_time"): "0.1",
    ("workers", "min_heartbeat_interval"): "1",
    ("scheduler", "orphaned_tasks_check_interval"): "30.0",
    ("scheduler", "task_instance_heartbeat_timeout"): "60",
    ("dag_processor", "dag_bundle_config_list"): (
        '[{"name": "nemo-jobs", "classpath": "nemo_airflow_provider.dags.bundle.JobsDagBundle", "kwargs": {}}]'
    ),
}
DATABASE = Database(
    alive={"scheduler": 1, "dag-processor": 1},
    anchors={"default": Anchor(known=True)},
    pools=frozenset({"default_pool"}),
)

Options = Mapping[tuple[str, str], str]
Bad = Callable[..., list[Finding]]


@pytest.fixture
def file_report(tmp_path: Path) -> Callable[[str], FileReport]:
    """The report on a configuration file with this text."""

    def report(text: str) -> FileReport:
        path = tmp_path / "jobs.yaml"
        path.write_text(text)
        return inspect(path, "[nemo] config_file", {})

    return report


@pytest.fixture
def bad(tmp_path: Path, file_report: Callable[[str], FileReport]) -> Bad:
    """Everything that is not fine with an installation that differs in these things from a good one."""

    def found(options: Options | None = None, profiles: str = "", **changes: Any) -> list[Finding]:
        merged = OPTIONS | dict(options or {})
        file = file_report(profiles or "platform: {runtime: none}\njobs: {enable_subprocess_executor: false}")
        good = Installation(
            option=lambda section, name: merged.get((section, name), ""),
            # A runtime without built-in profiles is told as a warning, which is nobody's matter here.
            file=file if profiles else replace(file, warnings=()),
            workspaces=Workspaces(("default",)),
            storage=tmp_path,
            database=DATABASE,
            dialect="postgresql",
        )
        return [finding for finding in examine(replace(good, **changes)) if finding.level is not Level.OK]

    return found
