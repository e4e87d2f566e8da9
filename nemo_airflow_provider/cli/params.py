"""Options that several commands share, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nemo_airflow_provider.cli import completion
from nemo_airflow_provider.cli.output import EntityFormat, ListFormat


def _job(statuses: frozenset[str] | None = None) -> Any:
    """The argument that names a job.

    :param statuses: of the jobs that a shell offers; all of them without
    """
    return typer.Argument(
        metavar="NAME", help="Name or id of the job.", show_default=False, autocompletion=completion.jobs(statuses)
    )


Job = Annotated[str, _job()]
LiveJob = Annotated[str, _job(completion.LIVE)]
PausedJob = Annotated[str, _job(completion.PAUSED)]
UnpausedJob = Annotated[str, _job(completion.UNPAUSED)]
EndedJob = Annotated[str, _job(completion.ENDED)]
OfJob = Annotated[
    str,
    typer.Option("--job", help="Name or id of the job.", show_default=False, autocompletion=completion.jobs()),
]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", help="Workspace, instead of the context's.", autocompletion=completion.workspaces),
]
Entity = Annotated[
    EntityFormat | None,
    typer.Option("--output-format", "--output", "-f", help="Format of the answer.", show_default="json"),
]
List = Annotated[
    ListFormat | None,
    typer.Option(
        "--output-format",
        "--output",
        "-f",
        help="Format of the answer.",
        show_default="table on a terminal, else json",
    ),
]
NoTruncate = Annotated[bool, typer.Option("--no-truncate", help="Show whole values in cells.")]
Columns = Annotated[
    str,
    typer.Option(
        "--output-columns",
        "-c",
        help="Columns: default, all, or names joined by commas.",
        autocompletion=completion.words("default", "all"),
    ),
]
Stream = Annotated[bool, typer.Option("--stream", help="One JSON object a line (with -f json or raw).")]
AllPages = Annotated[bool, typer.Option("--all-pages", help="Fetch every page.")]
Page = Annotated[int | None, typer.Option("--page", min=1, help="Which page.", show_default="1")]
PageSize = Annotated[int | None, typer.Option("--page-size", min=1, help="Rows of a page.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        help='JSON: {"status": "completed"}, {"name": {"$like": "train"}}. Other text goes to the server as it is.',
    ),
]
Attempt = Annotated[
    str | None,
    typer.Option(
        "--attempt-id",
        help="An attempt's id or number, or current.",
        show_default="current",
        autocompletion=completion.words("current"),
    ),
]
Step = Annotated[
    str | None,
    typer.Option("--step-id", metavar="NAME", help="Only lines of this step.", autocompletion=completion.steps),
]
Task = Annotated[
    str | None,
    typer.Option("--task-id", metavar="NAME", help="Only lines of this task.", autocompletion=completion.tasks),
]
PollInterval = Annotated[
    float | None,
    typer.Option("--poll-interval", min=0, help="Seconds between two looks.", show_default="0.3 while busy, up to 3"),
]
