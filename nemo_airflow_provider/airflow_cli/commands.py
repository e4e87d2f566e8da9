"""What the `airflow nemo` commands do: they call the doctor, and print what it says."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps

from nemo_airflow_provider.cli.terminal import ReaderGone, Terminal, forget_output
from nemo_airflow_provider.doctor import report
from nemo_airflow_provider.doctor.findings import Level, exit_code

_COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.OK: "green"}

Command = Callable[[argparse.Namespace], int]


def command(run: Command) -> Callable[[argparse.Namespace], None]:
    """A command whose return value is the exit code; an interrupt or a reader that has gone ends it quietly."""

    @wraps(run)
    def ended(args: argparse.Namespace) -> None:
        try:
            code = run(args)
        except KeyboardInterrupt:
            code = 130
        except ReaderGone:
            forget_output()
            code = 141
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
        for level, line in report.as_lines(findings, verbose=args.verbose):
            terminal.say(line, colour=_COLOURS[level])
        terminal.note(f"{report.summary(findings)}.")
    return exit_code(findings, strict=args.strict)


@contextmanager
def data_alone_on_stdout() -> Iterator[None]:
    """Whatever Airflow says while it is looked at goes to stderr."""
    with redirect_stdout(sys.stderr):
        yield
