from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from nemo_airflow_provider.standalone import environment

HOME = Path("/srv/home")


def test_the_callers_environment_wins_over_every_default_but_home_and_port() -> None:
    said = dict.fromkeys(environment.DEFAULTS, "said")
    said |= {
        "AIRFLOW__API__BASE_URL": "https://jobs.example/airflow",
        "AIRFLOW__API__WORKERS": "7",
        "NHX_CONFIG_FILE_PATH": "/etc/profiles.yaml",
        "UNRELATED": "kept",
    }
    asked = said | {"AIRFLOW_HOME": "/elsewhere", "AIRFLOW__API__PORT": "1"}
    answer = environment.server_environment(asked, HOME, port=8123, api_workers=2)
    assert answer == environment.SQLITE_DEFAULTS | said | {"AIRFLOW_HOME": "/srv/home", "AIRFLOW__API__PORT": "8123"}


def test_few_workers_with_enough_connections_share_an_sqlite_file() -> None:
    other = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql+psycopg2:///airflow"}
    answer = environment.server_environment(other, HOME, port=1, api_workers=2)
    assert "AIRFLOW__CORE__PARALLELISM" not in answer
    assert answer["AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW"] == "35"
    said = dict.fromkeys(environment.SQLITE_DEFAULTS, "3")
    answer = environment.server_environment(said, HOME, port=1, api_workers=2)
    assert said.items() <= answer.items()
    answer = environment.server_environment({}, HOME, port=1, api_workers=2)
    assert answer["AIRFLOW__CORE__PARALLELISM"] == "8"
    assert answer["AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW"] == "-1"


def test_defaults_are_local_and_name_both_dag_bundles() -> None:
    answer = environment.server_environment({}, HOME, port=8123, api_workers=2)
    assert answer["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert answer["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:8123"
    assert answer["AIRFLOW__API__WORKERS"] == "2"
    assert answer["NHX_CONFIG_FILE_PATH"] == "/srv/home/nemo.yaml"
    bundles = json.loads(answer["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    assert [bundle["name"] for bundle in bundles] == ["dags-folder", "nemo-jobs"]


def test_a_server_on_every_address_is_reached_on_loopback_below_its_base_path() -> None:
    said = {"AIRFLOW__API__HOST": "0.0.0.0", "AIRFLOW__API__BASE_URL": "https://jobs.example/airflow/"}
    answer = environment.server_environment(said, HOME, port=8123, api_workers=1)
    assert environment.local_url(answer) == "http://127.0.0.1:8123/airflow"


def test_a_new_home_is_invisible_to_git_and_has_a_profile_that_needs_no_engine(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    environment.prepare_home(home)
    assert (home / ".gitignore").read_text() == "*\n"
    assert (home / "dags").is_dir()
    content = yaml.safe_load(environment.profiles_file(home).read_text())
    assert content["platform"] == {"runtime": "none"}
    folder = content["jobs"]["executor_defaults"]["subprocess"]["working_directory"]
    assert folder == str(home / "workloads")


def test_an_existing_home_keeps_what_it_has(tmp_path: Path) -> None:
    environment.profiles_file(tmp_path).write_text("mine")
    environment.prepare_home(tmp_path)
    environment.prepare_home(tmp_path)
    assert environment.profiles_file(tmp_path).read_text() == "mine"
    assert not (tmp_path / ".gitignore").exists()


def test_a_shell_gets_what_was_filled_in_and_nothing_that_was_given(tmp_path: Path) -> None:
    given = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://nemo:secret@db/airflow", "PATH": "/usr/bin:/bin"}
    complete = environment.server_environment(given, tmp_path, port=8123, api_workers=2)
    file = environment.write_shell_file(tmp_path, complete, given)
    assert "secret" not in file.read_text()
    script = f". {file}; command -v python; env -0"
    shell = subprocess.run(["sh", "-c", script], env=given, capture_output=True, text=True, check=True)
    python, _, listed = shell.stdout.partition("\n")
    assert Path(python).parent == Path(sys.executable).parent
    seen = dict(entry.split("=", 1) for entry in listed.split("\0") if entry)
    assert {key: seen[key] for key in complete if key != "PATH"} == {
        key: value for key, value in complete.items() if key != "PATH"
    }


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not environment.is_free(port)
    assert environment.is_free(port)
    assert environment.is_free(environment.free_port())
