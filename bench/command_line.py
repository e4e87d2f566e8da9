"""Time from starting the `nemo` command to its end."""

from __future__ import annotations

import os
import subprocess
import time

from bench.registry import System, measurement


@measurement("nemo_jobs_list_seconds", runs=10)
def jobs_list(system: System) -> float:
    command = [system.nemo, "--base-url", system.url, "jobs", "list", "--output-format", "json"]
    environ = os.environ | {"NEMO_TELEMETRY_ENABLED": "false"}
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return time.perf_counter() - began
