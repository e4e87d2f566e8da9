"""`python -m nemo_airflow_provider.standalone serve|run`: a local Airflow until Ctrl-C, or for one job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment, job, lock
from nemo_airflow_provider.standalone.interruption import Interruption, Stopped
from nemo_airflow_provider.standalone.server import AirflowServer, LaunchError

DEFAULT_PORT = 8080
DEFAULT_HOME = Path(".airflow")
#: Of the checkout this file is in; an installed package has no examples and needs the argument.
EXAMPLE = Path(__file__).parents[2] / "dags_examples" / "jobs" / "hello.yaml"

OK, FAILED, USAGE = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "run" and not _is_job(options.job):
            return USAGE
        return _start_or_borrow(options)
    except KeyboardInterrupt:  # before anything was started
        return FAILED


def _is_job(file: Path) -> bool:
    """Whether the file is worth an Airflow; what is wrong with it is told."""
    if not file.is_file():
        _say(f"There is no job file {file}; name one.")
        return False
    return job.is_valid(file)


def _start_or_borrow(options: argparse.Namespace) -> int:
    home = (options.home or Path(os.environ.get("AIRFLOW_HOME") or DEFAULT_HOME)).expanduser().resolve()
    wanted = options.port or _integer(os.environ.get("AIRFLOW__API__PORT"))
    port = wanted or (DEFAULT_PORT if options.command == "serve" else environment.free_port())
    # A second API worker costs 2.5 s at the start on two cores and answers its first calls slowly.
    workers = 2 if options.command == "serve" else 1
    environ = environment.server_environment(os.environ, home, port=port, api_workers=workers)
    environment.prepare_home(home)
    server = AirflowServer(environ)
    try:
        with lock.hold(home, server.url, options.command):
            if not environment.is_free(port, environ["AIRFLOW__API__HOST"]):
                return _fail(f"Port {port} is in use; give another one (PORT=… or --port …).", USAGE)
            environment.write_shell_file(home, environ, os.environ)
            return _launch(server, environ, options)
    except lock.HomeInUse as error:
        holder = error
    if options.command == "serve":
        return _fail(
            f"{holder} from {home}; stop it first, or give another home (AIRFLOW_HOME=… make serve, or --home …).",
            USAGE,
        )
    if holder.kind == "serve":
        return _run_there(server, holder, options.job)
    return _fail(
        f"{home} is in use by another run (process {holder.pid}), which ends by itself: wait for it, or use "
        "another home (AIRFLOW_HOME=… make run, or --home …).",
        USAGE,
    )


def _launch(server: AirflowServer, environ: Mapping[str, str], options: argparse.Namespace) -> int:
    """Start everything, do what was asked, end everything."""
    processes.adopt_orphans()
    console = _Console(server, options.verbose)
    with Interruption(server.end_at_once) as interruption:
        try:
            with interruption.allowed():
                _start(server, console)
                if options.command == "run":
                    nemo = job.command_environment(environ, keep_tokens=False)
                    return OK if job.run(options.job, server.url, nemo, console.tick) else FAILED
                server.start("triggerer")  # no job needs it, so it does not delay the start
                while True:
                    console.tick()
        except Stopped:
            return OK if options.command == "serve" else FAILED
        except LaunchError as error:
            return _fail(str(error), FAILED)
        finally:
            _say("Ending Airflow …")
            _stop(server)


def _run_there(server: AirflowServer, holder: lock.HomeInUse, file: Path) -> int:
    """Run the job on the Airflow of another launcher, which may still be starting."""
    server.url = holder.url
    _say(f"Using the Airflow that runs at {server.url}")
    nemo = job.command_environment(os.environ, keep_tokens=True)

    def look(consequence: str) -> None:
        if not holder.is_alive():
            raise LaunchError(f"The launcher of {server.url} (process {holder.pid}) ended{consequence}")

    def wait(_watch: int) -> None:
        look(", and its Airflow with it, before the job was over. Run the job again.")
        time.sleep(0.2)

    with Interruption(lambda: None) as interruption:
        try:
            with interruption.allowed():
                server.wait_ready(look=lambda: look(" before its Airflow was ready."))
                return OK if job.run(file, server.url, nemo, wait) else FAILED
        except Stopped:
            return FAILED
        except LaunchError as error:
            return _fail(str(error), FAILED)


def _start(server: AirflowServer, console: _Console) -> None:
    began = time.monotonic()
    _say(f"Starting Airflow in {server.home} (logs: {server.logs}) …")
    server.migrate()
    server.start("api-server", "scheduler", "dag-processor")
    server.wait_ready(look=console.show)
    _say(
        f"Ready after {time.monotonic() - began:.0f} s: {server.url} (Airflow), "
        f"{server.url}/apis/jobs/v2 (jobs API, NHX_BASE_URL={server.url}). Ctrl-C ends it."
    )


def _stop(server: AirflowServer) -> None:
    left = server.stop(processes.descendants)
    if left:
        _say(f"These processes could not be ended: {', '.join(map(str, left))}")


class _Console:
    """What happens while we wait: components are looked after, and shown if asked for."""

    def __init__(self, server: AirflowServer, verbose: bool) -> None:
        self._server = server
        self._verbose = verbose

    def tick(self, *children: int) -> None:
        """Look after everything, then sleep a moment.

        :param children: processes that somebody else here has started and will collect
        """
        self._server.check(report=_say)
        self.show(*children)
        time.sleep(0.2)

    def show(self, *children: int) -> None:
        processes.reap_orphans([*children, *(component.pid for component in self._server.components.values())])
        if self._verbose:
            for component in self._server.components.values():
                for line in component.new_output():
                    _say(f"{component.name} | {line}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nemo_airflow_provider.standalone", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--port", type=int, help="port of the API server and web page")
    common.add_argument("--home", type=Path, help="AIRFLOW_HOME; default: that of the environment, else ./.airflow")
    common.add_argument("--verbose", action="store_true", help="also print the output of Airflow's components")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", parents=[common], help=f"run Airflow until Ctrl-C (port {DEFAULT_PORT})")
    run = commands.add_parser("run", parents=[common], help="run Airflow for one job (any free port)")
    run.add_argument(
        "job",
        type=Path,
        nargs="?",
        default=EXAMPLE,
        help=f"job file; default: {EXAMPLE.name} of the examples",
    )
    return parser


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _fail(text: str, code: int) -> int:
    _say(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
