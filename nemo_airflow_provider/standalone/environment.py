"""The environment of a local Airflow: our defaults below whatever the caller's environment says."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml

LOOPBACK = "127.0.0.1"

DAG_BUNDLES = [
    # Naming any bundle replaces Airflow's own entry, so the DAG folder is named again.
    {
        "name": "dags-folder",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {},
    },
    {"name": "nemo-jobs", "classpath": "nemo_airflow_provider.dags.bundle.JobsDagBundle", "kwargs": {}},
]

#: The recommended settings, and what keeps an Airflow on this machine. Fernet, JWT and API keys are not here:
#: Airflow writes random ones into `airflow.cfg` (mode 0600) the first time it runs in a directory.
DEFAULTS = {
    "AIRFLOW__API__HOST": LOOPBACK,
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(DAG_BUNDLES),
    # With the 5 that Airflow keeps, one for each of an API server's 40 threads. With Airflow's 15, many jobs at once
    # wait 30 s for one and fail. Those of two API workers fit into the 100 that a Postgres allows.
    "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "35",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}

#: SQLite has one writer, and what waits for it for 5 s fails.
SQLITE_DEFAULTS = {
    # With Airflow's 32 workers there is always somebody who waits that long.
    "AIRFLOW__CORE__PARALLELISM": "8",
    # A connection to a file costs nobody anything. With too few, the API server's 40 threads wait 30 s for one that is
    # held, with the lock of the only writer, by a request that waits for a thread.
    "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "-1",
}

#: In the home: what a shell reads before Airflow's own commands are meant for this Airflow.
SHELL_FILE = "env.sh"

SHELL_HEADER = """\
# `. this-file` makes Airflow's own commands (airflow nemo check, airflow variables set …) mean this Airflow.
# Written by each start. What the start was given in its own environment is not here: give your shell the same.
"""

PROFILES_HEADER = "# Execution profiles of this local Airflow. Written once; edits count at the next request.\n"


def server_environment(environ: Mapping[str, str], home: Path, *, port: int, api_workers: int) -> dict[str, str]:
    """`environ` with every missing setting filled in; creates nothing.

    :param home: the AIRFLOW_HOME; wins over the one in `environ`
    :param port: of the API server; wins over `AIRFLOW__API__PORT`, since the caller has chosen it
    :param api_workers: unless `AIRFLOW__API__WORKERS` says otherwise
    """
    host = environ.get("AIRFLOW__API__HOST", LOOPBACK)
    defaults = DEFAULTS | {
        "AIRFLOW__API__BASE_URL": f"http://{reachable(host)}:{port}",
        "AIRFLOW__API__WORKERS": str(api_workers),
        "NHX_CONFIG_FILE_PATH": str(profiles_file(home)),
    }
    if "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" not in environ:
        defaults |= SQLITE_DEFAULTS
    return {**defaults, **environ, "AIRFLOW_HOME": str(home), "AIRFLOW__API__PORT": str(port)}


def profiles_file(home: Path) -> Path:
    """Where the execution profiles of a home without `NHX_CONFIG_FILE_PATH` are kept."""
    return home / "nemo.yaml"


def prepare_home(home: Path) -> None:
    """Make the directory with its DAG folder and its profiles file; what exists is left as it is."""
    if not home.exists():
        home.mkdir(parents=True)
        # A home inside a checkout must not show up as untracked files.
        (home / ".gitignore").write_text("*\n")
    (home / "dags").mkdir(exist_ok=True)
    profiles = profiles_file(home)
    if not profiles.exists():
        content = {
            "platform": {"runtime": "none"},
            "jobs": {"executor_defaults": {"subprocess": {"working_directory": str(home / "workloads")}}},
        }
        profiles.write_text(PROFILES_HEADER + yaml.safe_dump(content, sort_keys=False))


def write_shell_file(home: Path, environment: Mapping[str, str], given: Mapping[str, str]) -> Path:
    """Leave what `server_environment` filled in for a shell, with this Python's commands on its path.

    :param home: it is there already
    :param environment: complete
    :param given: what the caller's environment said; values of it may be secrets, and are left out
    """
    ours = {key: value for key, value in environment.items() if key not in given}
    # A home and a port that the command line names stand for what the environment says.
    ours |= {key: environment[key] for key in ("AIRFLOW_HOME", "AIRFLOW__API__PORT")}
    lines = [f"export {key}={shlex.quote(value)}\n" for key, value in sorted(ours.items())]
    commands = shlex.quote(str(Path(sys.executable).parent))
    file = home / SHELL_FILE
    file.write_text(f"{SHELL_HEADER}{''.join(lines)}export PATH={commands}:$PATH\n")
    return file


def local_url(environment: Mapping[str, str]) -> str:
    """Where this machine reaches the API server of a complete environment, with the path of its base URL."""
    host = reachable(environment["AIRFLOW__API__HOST"])
    path = urlsplit(environment["AIRFLOW__API__BASE_URL"]).path.rstrip("/")
    return f"http://{host}:{environment['AIRFLOW__API__PORT']}{path}"


def reachable(host: str) -> str:
    """An address to connect to, for one to listen on."""
    return LOOPBACK if host in ("", "0.0.0.0", "::", "localhost") else host


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As the server does, so that connections of an earlier one in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port nobody listens on; somebody may take it before the caller does."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
