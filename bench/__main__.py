"""`python -m bench [NAME …] [--runs N] [--list]`: one JSON document on stdout, progress on stderr.

A new kind of measurement is a module with `@measurement` functions, imported here.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from bench import (
    burst,
    command_line,
    docker_lines,
    docker_steps,
    jobs,
    kubernetes_burst,
    kubernetes_running,
    kubernetes_steps,
    logs,
    pausing,
    running,
    systems,
)
from bench.registry import MEASUREMENTS, Measurement, Skipped, System, chosen
from bench.summary import side_by_side, summary
from nemo_airflow_provider import processes

#: Importing a module registers its measurements.
MODULES = (
    jobs,
    command_line,
    logs,
    burst,
    running,
    pausing,
    docker_steps,
    docker_lines,
    kubernetes_steps,
    kubernetes_running,
    kubernetes_burst,
)

Start = Callable[[Path], AbstractContextManager[System]]


def main() -> int:
    options = _options()
    if options.list:
        print("\n".join(MEASUREMENTS))
        return 0
    try:
        measurements = chosen(options.names)
    except ValueError as error:
        _say(str(error))
        return 2
    processes.adopt_orphans()
    # So that SIGTERM ends what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(json.dumps(_report(measurements, options.runs), indent=2))
    finally:
        processes.end(processes.descendants)
    return 0


def _report(measurements: list[Measurement], runs: int | None) -> dict[str, Any]:
    """Everything is measured on one system after the other, so that neither takes the other's processor time."""
    database = systems.postgres_url()
    ours: dict[str, dict[str, Any]] = {}
    # One Airflow for all that do not need more slots than the others.
    for slots in dict.fromkeys(entry.slots for entry in measurements) or (None,):
        group = [entry for entry in measurements if entry.slots == slots]
        ours |= _measure("ours", partial(systems.ours, database=database, slots=slots), group, runs)
    notes = []
    upstream: dict[str, dict[str, Any]] = {}
    if nemo := os.environ.get("NEMO_BENCH_UPSTREAM"):
        both = [entry for entry in measurements if entry.upstream]
        try:
            upstream = _measure("upstream", lambda folder: systems.upstream(folder, nemo), both, runs)
        except (RuntimeError, OSError) as error:
            notes.append(f"Upstream was not measured: {error}")
    else:
        notes.append("Upstream was not measured: set NEMO_BENCH_UPSTREAM to the nemo of nemo-helix[services].")
    return {
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()[0]},
        "database": {"ours": systems.database_name(database), "upstream": "sqlite" if upstream else None},
        "versions": _versions(),
        "settings": {"[nemo] pause_hold_seconds": pausing.HOLD_SECONDS},
        "notes": notes,
        "measurements": {
            entry.name: side_by_side(ours.get(entry.name), upstream.get(entry.name)) for entry in measurements
        },
    }


def _measure(title: str, start: Start, measurements: list[Measurement], runs: int | None) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="nemo-bench-") as folder:
        _say(f"{title}: starting")
        with start(Path(folder)) as system:
            for entry in measurements:
                _say(f"{title}: {entry.name}")
                try:
                    warming = system.each_worker()
                    warm_up = [entry.sample(warming) for _ in range(entry.warm_up)]
                    samples = [entry.sample(system) for _ in range(runs or entry.runs)]
                    results[entry.name] = summary(warm_up, samples)
                except Skipped as reason:
                    results[entry.name] = {"skipped": str(reason)}
                except Exception as error:  # one broken measurement must not cost the others
                    results[entry.name] = {"error": _explain(error)}
    return results


def _explain(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error}: {error.stderr.decode(errors='replace').strip()[-500:]}"
    if isinstance(error, httpx.HTTPStatusError):
        return (
            f"{error.response.status_code} of {error.request.method} {error.request.url}: {error.response.text[:500]}"
        )
    return f"{type(error).__name__}: {error}"


def _versions() -> dict[str, str]:
    providers = ("apache-airflow-providers-docker", "apache-airflow-providers-cncf-kubernetes")
    names = ("nemo-airflow-provider", "apache-airflow", *providers)
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="measurements; default: all")
    parser.add_argument("--runs", type=int, help="samples of each, after the warm-up")
    parser.add_argument("--list", action="store_true", help="names of the measurements")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
