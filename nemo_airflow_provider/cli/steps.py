"""`nemo jobs steps …` and `nemo jobs tasks …`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from nemo_airflow_provider.cli import completion, filters, params
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.jobs import show_pages
from nemo_airflow_provider.cli.output import Listing, ListOptions, show_entity

steps_app = typer.Typer(name="steps", help="Steps of a job.", no_args_is_help=True)
tasks_app = typer.Typer(name="tasks", help="Tasks of a step.", no_args_is_help=True)

_COLUMNS = ("name", "workspace", "status", "created_at")

StepName = Annotated[str, typer.Argument(metavar="NAME", help="The step.", autocompletion=completion.steps)]


class StepSort(StrEnum):
    """Orders of a list of steps; `-` is descending."""

    CREATED = "created_at"
    CREATED_DESCENDING = "-created_at"
    UPDATED = "updated_at"
    UPDATED_DESCENDING = "-updated_at"


@steps_app.command("list")
def list_steps(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The job; - means all jobs.", autocompletion=completion.jobs())
    ],
    workspace: params.Workspace = None,
    filter: params.Filter = None,
    filter_job: Annotated[str | None, typer.Option("--filter.job", autocompletion=completion.jobs())] = None,
    filter_source: Annotated[str | None, typer.Option("--filter.source")] = None,
    page: params.Page = None,
    page_size: params.PageSize = None,
    sort: Annotated[StepSort | None, typer.Option("--sort", show_default="created_at")] = None,
    all_pages: params.AllPages = False,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
    stream: params.Stream = False,
) -> None:
    """List the steps of a job that have begun, oldest first."""
    call = Call(
        "list_steps",
        (name,),
        {
            "workspace": workspace,
            "filter": filters.combined(filter, {"job": filter_job, "source": filter_source}),
            "sort": sort.value if sort else None,
            "page": page,
            "page_size": page_size,
        },
    )
    options = ListOptions(output_format, no_truncate, output_columns, stream)
    show_pages(context.obj, call, Listing(context.obj, options, _COLUMNS), all_pages=all_pages)


@steps_app.command("get")
def get_step(
    context: typer.Context,
    name: StepName,
    job: params.OfJob,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Show a step."""
    show_entity(context.obj, Call("get_step", (job, name), {"workspace": workspace}), output_format)


@tasks_app.command("list")
def list_tasks(
    context: typer.Context,
    name: StepName,
    job: params.OfJob,
    workspace: params.Workspace = None,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
    stream: params.Stream = False,
) -> None:
    """List the tasks of a step."""
    call = Call("list_tasks", (job, name), {"workspace": workspace})
    options = ListOptions(output_format, no_truncate, output_columns, stream)
    show_pages(context.obj, call, Listing(context.obj, options, _COLUMNS), all_pages=False)


@tasks_app.command("get")
def get_task(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The task.", autocompletion=completion.tasks)],
    job: params.OfJob,
    step: Annotated[str, typer.Option("--step", help="The step.", show_default=False, autocompletion=completion.steps)],
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Show a task."""
    show_entity(context.obj, Call("get_task", (job, step, name), {"workspace": workspace}), output_format)
