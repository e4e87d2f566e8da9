"""The commands put together, the global options, and every way a run can end as an exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from nemo_airflow_provider import __version__
from nemo_airflow_provider.cli import completion, create, logs
from nemo_airflow_provider.cli.failures import UsageError, report
from nemo_airflow_provider.cli.gpus import gpus
from nemo_airflow_provider.cli.jobs import app as jobs_app
from nemo_airflow_provider.cli.login import login
from nemo_airflow_provider.cli.output import ListFormat
from nemo_airflow_provider.cli.progress import INTERRUPTED
from nemo_airflow_provider.cli.session import TIMESTAMP_FORMATS, GlobalOptions, Session
from nemo_airflow_provider.cli.show_config import app as config_app
from nemo_airflow_provider.cli.steps import steps_app, tasks_app
from nemo_airflow_provider.cli.terminal import ReaderGone, Terminal, forget_output

_READER_GONE = 141  # 128 + SIGPIPE, as for any program at the head of a pipe


class _Commands(TyperGroup):
    """Answers Ctrl-C where no command does; typer would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            Terminal().note("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="nemo",
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    epilog=("Exit codes: 0 success, 1 local or unexpected error, 2 usage, 3 server or network error, 130 interrupted."),
)
# Their commands join those of `jobs` when they are imported.
_ = (create, logs)
jobs_app.add_typer(steps_app)
jobs_app.add_typer(tasks_app)
app.add_typer(jobs_app)
app.add_typer(config_app)
app.command()(gpus)
app.command()(login)

# The base of what the parser raises. typer carries its parser along, or uses click, depending on its version.
_ParserError = cast(
    type[Exception], next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
)


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        Terminal(colour=False).say(f"nemo {__version__} (nemo-airflow-provider)")
        raise typer.Exit()


@app.callback()
def global_options(
    context: typer.Context,
    context_name: Annotated[
        str | None,
        typer.Option(
            "--context",
            "-c",
            metavar="NAME",
            help="Context of the context file.",
            autocompletion=completion.contexts,
        ),
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="The server.")] = None,
    access_token: Annotated[
        str | None,
        typer.Option(
            "--access-token",
            metavar="TOKEN",
            help="Token to send. Others on this machine can see it; NHX_ACCESS_TOKEN is not seen.",
        ),
    ] = None,
    output_format: Annotated[
        ListFormat | None,
        typer.Option("--output-format", "--output", "-f", help="Format of every answer that can have it."),
    ] = None,
    no_truncate: Annotated[bool, typer.Option("--no-truncate", help="Show whole values in cells.")] = False,
    timestamp_format: Annotated[
        str | None,
        typer.Option(
            "--timestamp-format",
            metavar="|".join(TIMESTAMP_FORMATS),
            help="Moments in table, markdown, csv.",
            autocompletion=completion.words(*TIMESTAMP_FORMATS),
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show where an unexpected error comes from.")
    ] = False,
    no_telemetry: Annotated[bool, typer.Option("--no-telemetry", help="Accepted; nothing is ever reported.")] = False,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Jobs of NVIDIA NeMo Helix on Apache Airflow."""
    del no_telemetry, version
    if timestamp_format is not None and timestamp_format not in TIMESTAMP_FORMATS:
        raise UsageError(
            f"Invalid value for '--timestamp-format': {timestamp_format!r} is not one of "
            + ", ".join(repr(allowed) for allowed in TIMESTAMP_FORMATS)
        )
    context.obj.options = GlobalOptions(
        context=context_name,
        base_url=base_url,
        access_token=access_token,
        output_format=output_format.value if output_format else None,
        timestamp_format=timestamp_format,
        no_truncate=no_truncate,
        verbose=verbose,
    )


def run(arguments: Sequence[str], session: Session | None = None) -> int:
    """Run one command line; its exit code.

    :param session: what to run with, where clock and waiting are not those of this process
    :raises KeyboardInterrupt: outside of what the commands handle
    """
    chosen = session or Session()
    try:
        if completion.is_asked(os.environ):
            return completion.answer(lambda: _run(arguments, chosen), os.environ)
        return _run(arguments, chosen)
    except ReaderGone:
        forget_output()
        return _READER_GONE


def _run(arguments: Sequence[str], session: Session) -> int:
    command = typer.main.get_command(app)
    try:
        result: Any = command.main(args=list(arguments), prog_name="nemo", standalone_mode=False, obj=session)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _ParserError as error:
        return _report_usage(error)
    except ReaderGone:
        raise
    except SystemExit as error:
        # typer, or what it prints help with, leaves so when its reader has gone.
        if isinstance(error.__context__, BrokenPipeError):
            raise ReaderGone from error
        raise
    except Exception as error:
        return report(error, session)
    return result if isinstance(result, int) else 0


def _report_usage(error: Exception) -> int:
    """What the parser did not understand: the sentence first, then where to read on."""
    terminal = Terminal()
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        # The message is the help itself.
        if message:
            terminal.note(message)
        return 2
    # pydantic, which newer versions of typer check values with, puts its own words first.
    terminal.note(f"Error: {message.replace('Value error, ', '', 1)}", colour="red")
    hint = _global_option_hint(getattr(error, "option_name", None), context)
    if hint is not None:
        terminal.note(hint)
    elif context is not None:
        terminal.note(context.get_usage())
        terminal.note(f"Try '{context.command_path} --help'.")
    return 2


def _global_option_hint(name: str | None, context: Any) -> str | None:
    """Where an option belongs that the command does not know, but `nemo` does."""
    if name is None or context is None or context.parent is None:
        return None
    root = context.find_root()
    option = next((parameter for parameter in root.command.params if name in parameter.opts), None)
    if option is None:
        return None
    value = "" if option.is_flag else f" {option.metavar or 'VALUE'}"
    command = context.command_path.removeprefix(root.command_path)
    return f"Hint: {name} is a global option; it stands before the command: {root.command_path} {name}{value}{command}"
