"""Options that several commands share, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from nemo_airflow_provider.cli.output import EntityFormat, ListFormat

Job = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the job.", show_default=False)]
OfJob = Annotated[str, typer.Option("--job", help="Name or id of the job.", show_default=False)]
Workspace = Annotated[str | None, typer.Option("--workspace", help="Workspace, instead of the context's.")]
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
    str, typer.Option("--output-columns", "-c", help="Columns: default, all, or names joined by commas.")
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
    str | None, typer.Option("--attempt-id", help="An attempt's id or number, or current.", show_default="current")
]
Step = Annotated[str | None, typer.Option("--step-id", metavar="NAME", help="Only lines of this step.")]
Task = Annotated[str | None, typer.Option("--task-id", metavar="NAME", help="Only lines of this task.")]
PollInterval = Annotated[
    float | None,
    typer.Option("--poll-interval", min=0, help="Seconds between two looks.", show_default="0.3 while busy, up to 3"),
]
