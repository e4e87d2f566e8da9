"""The `airflow nemo` commands, as Airflow's command line wants them told.

Imported by every `airflow` command: it names what to import, and reads neither a file nor an option, so that a broken
configuration of ours cannot harm `airflow --help`.
"""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

_COMMANDS = "nemo_airflow_provider.airflow_cli.commands"

ARG_FILE = Arg(
    ("file",),
    nargs="?",
    metavar="FILE",
    help="a configuration file; without it the one that [nemo] config_file or NHX_CONFIG_FILE_PATH names",
)
ARG_OUTPUT = Arg(
    ("-o", "--output"),
    choices=("table", "json"),
    default="table",
    help="table for people, json for programs (default: table)",
)
ARG_STRICT = Arg(("--strict",), action="store_true", help="Exit with 1 for warnings too")
ARG_VERBOSE = Arg(("-v", "--verbose"), action="store_true", help="Show what is fine, too")


def get_provider_cli_commands() -> list[CLICommand]:
    """Called by Airflow (provider info, key `cli`)."""
    return [
        GroupCommand(
            name="nemo",
            help="NeMo Helix jobs on this Airflow",
            subcommands=(
                _check(),
                GroupCommand("config", "The configuration file of execution profiles", (_config_check(),)),
                _sweep(),
            ),
        )
    ]


def _check() -> ActionCommand:
    return ActionCommand(
        name="check",
        help="Say what this installation lacks to run NeMo jobs, one line each with the remedy",
        description="Looks at Airflow's settings, its database, our configuration file and the parts that have to run. "
        "Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 usage.",
        func=lazy_load_command(f"{_COMMANDS}.check"),
        args=(ARG_OUTPUT, ARG_STRICT, ARG_VERBOSE),
    )


def _config_check() -> ActionCommand:
    return ActionCommand(
        name="check",
        help="Check a configuration file and show the merged profiles",
        description="Reads, checks and merges the file as the jobs API does, with the environment variables over it. "
        "Exit codes: 0 no errors, 1 errors in the file (with --strict also warnings), 2 usage, or no such file.",
        func=lazy_load_command(f"{_COMMANDS}.config_check"),
        args=(ARG_FILE, ARG_OUTPUT, ARG_STRICT),
    )


def _sweep() -> ActionCommand:
    return ActionCommand(
        name="sweep",
        help="Tidy up after jobs now, as the DAG nemo-sweep does every minute",
        description="Ends cancels that nobody obeys, stops workloads of this host that nobody needs, stores the rest "
        "of their output, and removes what is left once its time is over. Harmless at any time, and twice. "
        "Exit codes: 0 swept, 1 it cannot be swept, 2 usage.",
        func=lazy_load_command("nemo_airflow_provider.airflow_cli.sweep.sweep"),
        args=(ARG_OUTPUT,),
    )
