"""The real upstream server, whose jobs are run from Airflow and measured against."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment
from nemo_airflow_provider.standalone.component import Component

READY_SECONDS = 180


@contextmanager
def upstream_server(folder: Path, nemo: str) -> Iterator[tuple[str, Component]]:
    """Upstream's own server without containers, on its SQLite file: it comes with no other database here.

    :param folder: everything it writes
    :param nemo: its executable, of an environment with `nemo-helix[services]`
    :return: its base URL and its process
    """
    port = environment.free_port()
    config = folder / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "platform": {"runtime": "none"},
                "jobs": {"executor_defaults": {"subprocess": {"working_directory": str(folder / "work")}}},
                "files": {
                    "default_storage_config": {"type": "local", "path": str(folder / "files")},
                },
            }
        )
    )
    arguments = ["--services", "auth,entities,files,jobs,secrets", "--controllers", "jobs"]
    server = Component(
        "upstream",
        [nemo, "services", "run", "--port", str(port), "--config", str(config), *arguments],
        os.environ
        | {
            "HOME": str(folder),
            "NEMO_TELEMETRY_ENABLED": "false",
            "NHX_CONFIG_FILE_PATH": str(config),
            "NHX_DATA_DIR": str(folder / "data"),
        },
        folder / "upstream.log",
    )
    server.start()
    try:
        _wait_for_upstream(server, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.send_to_all(signal.SIGTERM)
        server.wait(10)
        processes.end(server.members)


def _wait_for_upstream(server: Component, url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if not server.is_running():
            break
        try:
            status = httpx.get(f"{url}/status", timeout=10).json()
        except (httpx.HTTPError, ValueError):
            status = {}
        # Jobs are accepted before the controller that runs them has started.
        if status.get("controllers", {}).get("healthy"):
            return
        time.sleep(0.2)
    raise RuntimeError(f"Upstream's server did not get ready; {server.log} ends with:\n{server.tail()}")
