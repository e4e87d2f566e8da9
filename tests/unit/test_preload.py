from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Uses a pooled connection, forks, and ends as its child: with 1 if that holds the connection too.
FORK = """
import os, sys
import sqlalchemy
from airflow import settings

def holds(path):
    folder = "/proc/self/fd"
    return any(os.path.realpath(os.path.join(folder, name)) == path for name in os.listdir(folder))

database = sys.argv[1]
settings.engine = sqlalchemy.create_engine(f"sqlite:///{database}")
with settings.engine.connect() as connection:
    connection.execute(sqlalchemy.text("SELECT 1"))
assert holds(database)

from nemo_airflow_provider import preload

child = os.fork()
if child == 0:
    os._exit(holds(database))
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with settings.engine.connect() as connection:
    assert connection.scalar(sqlalchemy.text("SELECT 2")) == 2
sys.exit(status)
"""


def test_a_forked_process_holds_no_database_connection_of_its_parent(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path.resolve() / "some.db")], check=True)


def test_the_packages_of_backends_are_imported_before_the_fork() -> None:
    code = "import sys; from nemo_airflow_provider import preload; sys.exit('docker.api.client' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
