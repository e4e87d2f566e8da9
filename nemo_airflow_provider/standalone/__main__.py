"""`python -m nemo_airflow_provider.standalone serve|run`: a local Airflow until Ctrl-C, or for one job."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nemo_airflow_provider.standalone import environment, lock, processes
from nemo_airflow_provider.standalone.server import AirflowServer, LaunchError

DEFAULT_PORT = 8080
DEFAULT_HOME = Path(".airflow")
#: Of the checkout this file is in; an installed package has no examples and needs the argument.
EXAMPLE = Path(__file__).parents[2] / "dags_examples" / "jobs" / "hello.yaml"

OK, FAILED, USAGE = 0, 1, 2


class Stopped(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP. Not an `Exception`, as KeyboardInterrupt is not."""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "run" and not options.job.is_file():
        return _fail(f"There is no job file {options.job}; name one.", USAGE)
    home = (options.home or Path(os.environ.get("AIRFLOW_HOME") or DEFAULT_HOME)).expanduser().resolve()
    wanted = options.port or _integer(os.environ.get("AIRFLOW__API__PORT"))
    port = wanted or (DEFAULT_PORT if options.command == "serve" else environment.free_port())
    # A second API worker costs 2.5 s at the start on two cores and answers its first calls slowly.
    workers = 2 if options.command == "serve" else 1
    environ = environment.server_environment(os.environ, home, port=port, api_workers=workers)
    environment.prepare_home(home)
    server = AirflowServer(environ)
    try:
        with lock.hold(home, server.url):
            if not environment.is_free(port, environ["AIRFLOW__API__HOST"]):
                return _fail(f"Port {port} is in use; give another one (PORT=… or --port …).", USAGE)
            return _launch(server, environ, options)
    except lock.HomeInUse as error:
        if options.command == "run":
            _say(f"Using the Airflow that runs at {error.url}")
            return _run_job(options.job, error.url, environ, lambda: time.sleep(0.2))
        return _fail(f"{error} from {home}; stop it first, or give another --home.", USAGE)
    except KeyboardInterrupt:
        return FAILED


def _launch(server: AirflowServer, environ: Mapping[str, str], options: argparse.Namespace) -> int:
    """Start everything, do what was asked, end everything."""
    processes.adopt_orphans()
    console = _Console(server, options.verbose)
    with _signals_end(server):
        try:
            _start(server, console)
            if options.command == "run":
                return _run_job(options.job, server.url, environ, console.tick)
            server.start("triggerer")  # no job needs it, so it does not delay the start
            while True:
                console.tick()
        except Stopped:
            return OK if options.command == "serve" else FAILED
        except LaunchError as error:
            return _fail(str(error), FAILED)
        finally:
            _stop(server)


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


def _run_job(job: Path, url: str, environ: Mapping[str, str], wait: Callable[[], None]) -> int:
    """Create the job under a fresh name and print its status and log until it ends.

    Two commands rather than `create --watch`, which prints the whole job first: here the log is what matters.

    :param wait: called again and again meanwhile
    """
    nemo = [sys.executable, "-m", "nemo_airflow_provider.cli.main", "--base-url", url, "jobs"]
    name = f"{job.stem}-{secrets.token_hex(4)}"
    create = [*nemo, "create", name, "--input-file", str(job)]
    if subprocess.run(create, env=dict(environ), stdout=subprocess.DEVNULL, check=False).returncode != 0:
        return FAILED
    _say(f"Job {name}:")
    watch = subprocess.Popen([*nemo, "watch", name], env=dict(environ), stdin=subprocess.DEVNULL)
    try:
        while watch.poll() is None:
            wait()
    finally:
        watch.terminate()
    return OK if watch.returncode == 0 else FAILED


def _stop(server: AirflowServer) -> None:
    left = server.stop(processes.descendants)
    if left:
        _say(f"These processes could not be ended: {', '.join(map(str, left))}")


class _Console:
    """What happens while we wait: components are looked after, and shown if asked for."""

    def __init__(self, server: AirflowServer, verbose: bool) -> None:
        self._server = server
        self._verbose = verbose

    def tick(self) -> None:
        """Look after everything, then sleep a moment."""
        self._server.check(report=_say)
        self.show()
        time.sleep(0.2)

    def show(self) -> None:
        processes.reap_orphans(component.pid for component in self._server.components.values())
        if self._verbose:
            for component in self._server.components.values():
                for line in component.new_output():
                    _say(f"{component.name} | {line}")


@contextmanager
def _signals_end(server: AirflowServer) -> Iterator[None]:
    """Turn the first signal into `Stopped`, and any later one into an immediate end."""
    seen = False

    def handle(_signum: int, _frame: object) -> None:
        nonlocal seen
        if seen:
            server.hurry = True
            return
        seen = True
        raise Stopped

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
