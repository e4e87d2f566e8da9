"""What the `airflow nemo` commands do: they call the doctor, and print what it says."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path

from nemo_airflow_provider.cli.terminal import ReaderGone, Terminal, clean_line, forget_output, is_terminal
from nemo_airflow_provider.doctor import report
from nemo_airflow_provider.doctor.findings import Level, exit_code

log = logging.getLogger(__name__)

_COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.OK: "green"}

#: There is nothing to check; argparse ends wrong usage with the same code.
_NO_FILE = 2

#: Of output that goes to no terminal.
_COLUMNS = 80

Command = Callable[[argparse.Namespace], int]


def command(run: Command) -> Callable[[argparse.Namespace], None]:
    """A command whose return value is the exit code; an interrupt or a reader that has gone ends it quietly,
    and what nobody foresaw in one line."""

    @wraps(run)
    def ended(args: argparse.Namespace) -> None:
        try:
            code = run(args)
        except KeyboardInterrupt:
            code = 130
        except ReaderGone:
            forget_output()
            code = 141
        except Exception as error:
            log.debug("airflow nemo failed", exc_info=error)
            Terminal().note(f"This could not be done: {clean_line(f'{type(error).__name__}: {error}')}", colour="red")
            code = 1
        sys.exit(code)

    return ended


@command
def check(args: argparse.Namespace) -> int:
    """`airflow nemo check`."""
    terminal = Terminal()
    with data_alone_on_stdout():
        from nemo_airflow_provider.doctor import gather
        from nemo_airflow_provider.doctor.checks import examine

        findings = examine(gather.installation())
    if args.output == "json":
        terminal.say(report.as_json(findings))
    else:
        _tell(terminal, report.as_lines(findings, verbose=args.verbose))
        terminal.note(f"{report.summary(findings)}.")
    return exit_code(findings, strict=args.strict)


@command
def config_check(args: argparse.Namespace) -> int:
    """`airflow nemo config check`."""
    terminal = Terminal()
    with data_alone_on_stdout():
        from nemo_airflow_provider.doctor import gather
        from nemo_airflow_provider.doctor.checks.profiles import of_file

        found = gather.configured_file() if args.file is None else gather.given_file(Path(args.file))
        findings = list(of_file(found, several_hosts=gather.has_several_hosts()))
    if args.output == "json":
        path = None if found.path is None else str(found.path)
        terminal.say(report.as_json(findings, file=path, profiles=report.profiles_data(found.profiles)))
    else:
        if found.profiles:
            terminal.say(report.profiles_text(found.profiles, _width()))
            terminal.say("")
        _tell(terminal, report.as_lines(findings, named=False))
        terminal.note(f"{found}: {report.summary(findings)}.")
    return _NO_FILE if found.unreadable else exit_code(findings, strict=args.strict)


def _tell(terminal: Terminal, lines: list[tuple[Level, str]]) -> None:
    for level, line in lines:
        terminal.say(line, colour=_COLOURS[level])


def _width() -> int:
    """Columns of the terminal, and those that fit everywhere where there is none."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else _COLUMNS


@contextmanager
def data_alone_on_stdout() -> Iterator[None]:
    """Whatever Airflow says while it is looked at goes to stderr, and what nobody can do anything about, nowhere."""
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        # Airflow's API server imports `svcs`, which imports the test client of its web framework.
        warnings.filterwarnings("ignore", message="Using `httpx` with `starlette.testclient` is deprecated")
        yield
