"""`airflow nemo …` as a platform engineer calls it: on a running Airflow, and on one that lacks nearly everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.lab import Lab, python, step
from tests.stack.airflow import FOREIGN, wait_until

#: Nobody listens on this port.
AWAY = "postgresql+psycopg2://nobody:long-enough@127.0.0.1:9/none"


def airflow(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Airflow's command line; nothing it prints may be a traceback of ours, or about what Airflow imports."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *words], env=environ, capture_output=True, text=True, timeout=300
    )
    assert "nemo_airflow_provider/" not in done.stdout + done.stderr
    assert "Deprecat" not in done.stderr
    return done


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What it printed as JSON. Airflow itself warns of a short password on stdout, before any command begins."""
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
    return found


def levels(shown: dict[str, Any]) -> dict[str, set[str]]:
    """Levels by the name of the check."""
    found: dict[str, set[str]] = {}
    for finding in shown["findings"]:
        found.setdefault(finding["check"], set()).add(finding["level"])
    return found


def made_by_hand(lab: Lab) -> str:
    """A run of a shape's DAG that is no job."""
    job = lab.submit("doctor", step("work", python("pass")))
    dag_id = job.run_path.split("/")[2]
    run_id = lab.name("by-hand")
    lab.airflow("POST", f"/dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": {"no": "job"}})
    return f"{dag_id} / {run_id}"


def test_a_running_installation(lab: Lab) -> None:
    run = made_by_hand(lab)
    seen: list[dict[str, Any]] = []

    def without_errors() -> bool:
        done = airflow(lab.stack.environ, "nemo", "check", "-o", "json")
        seen.append(document(done))
        assert done.returncode == (seen[-1]["result"] == "error")
        return done.returncode == 0

    # On a busy machine, a scheduler may not have reported itself for a while.
    wait_until(without_errors, 120, "nothing but warnings")
    shown = seen[-1]
    found = levels(shown)
    for check in ("plugin", "bundle", "scheduler", "dag-processor", "dag file", "storage", "workspaces", "config file"):
        assert found[check] == {"ok"}, shown
    assert [each for each in shown["findings"] if "scheduler_idle_sleep_time" in each["message"]] == []
    assert found["trust"] == {"note"}
    (runs,) = [finding for finding in shown["findings"] if finding["check"] == "runs"]
    assert runs["level"] == "warning"
    # It is the newest one, so it is the example.
    assert run in runs["message"]


def test_one_that_lacks_nearly_everything(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("jobs:\n  executers: []\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": AWAY,
        "AIRFLOW__NEMO__CONFIG_FILE": str(path),
        "AIRFLOW__NEMO__SECRET_GRANTS": '[["default", "else/where"]]',
        "AIRFLOW__NEMO__MAX_SHAPES": "many",
    }
    done = airflow(environ, "nemo", "check")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    errors = [line.split(maxsplit=1)[1] for line in lines if line.startswith("error")]
    for beginning in (
        "database       It does not answer: ",
        "bundle         [dag_processor] dag_bundle_config_list does not name",
        "options        [nemo] max_shapes",
        "options        [nemo] secret_grants: entry 1: [nemo] workspaces does not list",
        f"config file    {path}:2: jobs.executers: unknown key",
    ):
        assert [line for line in errors if " ".join(line.split()).startswith(" ".join(beginning.split()))], lines
    assert all(" → " in line for line in lines if line.startswith(("error", "warning")))
    # A broken file of ours is nobody else's matter.
    helped = airflow(environ, "--help")
    assert helped.returncode == 0
    assert "nemo" in helped.stdout


def test_a_database_that_was_never_migrated(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    done = airflow(environ | {"AIRFLOW_HOME": str(tmp_path)}, "nemo", "check", "--output", "json")
    assert done.returncode == 1
    (trouble,) = [
        finding
        for finding in document(done)["findings"]
        if finding["check"] == "database" and finding["level"] == "error"
    ]
    assert trouble["message"].startswith("It has no tables of Airflow.")
    assert trouble["remedy"] == "Migrate it: airflow db migrate"


def test_a_configuration_file(lab: Lab) -> None:
    done = airflow(lab.stack.environ, "nemo", "config", "check", "-o", "json")
    shown = document(done)
    assert done.returncode == 0
    assert shown["file"] == str(lab.profiles)
    listed = lab.http.get("/apis/jobs/v2/execution-profiles").json()
    assert [(each["provider"], each["profile"]) for each in shown["profiles"]] == [
        (each["provider"], each["profile"]) for each in listed
    ]
    missing = airflow(lab.stack.environ, "nemo", "config", "check", str(lab.stack.home / "none.yaml"))
    assert missing.returncode == 2
