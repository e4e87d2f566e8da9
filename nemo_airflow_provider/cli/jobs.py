"""`nemo jobs …`: wiring of options to calls of the client."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from nemo_airflow_provider.cli import completion, filters, params
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.output import EntityFormat, Listing, ListOptions, show_entity
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client.errors import BadAnswer
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.model.status import TERMINAL, Status

app = typer.Typer(name="jobs", help="Create, watch and end jobs.", no_args_is_help=True)

_COLUMNS = ("name", "description", "status", "created_at")
_PROFILE_COLUMNS = ("profile", "backend", "provider", "config")
#: The keys of a job, in order. The list leaves nulls out; scripts want every job to have every key.
_JOB_KEYS = (
    *("id", "attempt_id", "name", "workspace", "project", "description", "source", "spec", "platform_spec"),
    *("fileset", "output_location", "status", "status_details", "error_details", "created_at"),
    *("updated_at", "ownership", "custom_fields"),
)


class JobSort(StrEnum):
    """Orders of a list of jobs; `-` is descending."""

    CREATED = "created_at"
    CREATED_DESCENDING = "-created_at"
    UPDATED = "updated_at"
    UPDATED_DESCENDING = "-updated_at"
    SOURCE = "source"
    SOURCE_DESCENDING = "-source"


@app.command("list")
def list_jobs(
    context: typer.Context,
    workspace: params.Workspace = None,
    filter: params.Filter = None,
    filter_name: Annotated[str | None, typer.Option("--filter.name", autocompletion=completion.jobs())] = None,
    filter_project: Annotated[str | None, typer.Option("--filter.project")] = None,
    filter_source: Annotated[str | None, typer.Option("--filter.source")] = None,
    filter_status: Annotated[
        list[Status] | None,
        typer.Option(
            "--filter.status",
            metavar="STATUS",
            help=f"Repeatable: {', '.join(Status)}.",
            autocompletion=completion.statuses,
        ),
    ] = None,
    filter_workspace: Annotated[
        str | None, typer.Option("--filter.workspace", autocompletion=completion.workspaces)
    ] = None,
    page: params.Page = None,
    page_size: params.PageSize = None,
    sort: Annotated[JobSort | None, typer.Option("--sort", show_default="-created_at")] = None,
    all_pages: params.AllPages = False,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
    stream: params.Stream = False,
) -> None:
    """List jobs, newest first."""
    fields = {
        "name": filter_name,
        "project": filter_project,
        "source": filter_source,
        # Checked here, because to a server a status that no job can have is a filter like any other.
        "status": [status.value for status in filter_status or ()],
        "workspace": filter_workspace,
    }
    call = Call(
        "list_jobs",
        (),
        {
            "workspace": workspace,
            "filter": filters.combined(filter, fields),
            "sort": sort.value if sort else None,
            "page": page,
            "page_size": page_size,
        },
    )
    options = ListOptions(output_format, no_truncate, output_columns, stream)
    show_pages(context.obj, call, Listing(context.obj, options, _COLUMNS), all_pages=all_pages, keys=_JOB_KEYS)


def show_pages(session: Session, call: Call, listing: Listing, *, all_pages: bool, keys: tuple[str, ...] = ()) -> None:
    """Make a call that answers one page, or the pages from it on, and print it.

    :param keys: keys that every row is to have
    """
    if listing.wants_code:
        session.terminal.say(call.snippet(session))
        return
    answer = _whole(call.make(session), keys)
    if not all_pages:
        listing.show(answer, answer["data"], more=_has_next(answer))
        return
    rows: list[JsonObject] = []
    while True:
        if listing.streams:
            listing.stream(answer["data"])
        else:
            rows += answer["data"]
        if not _has_next(answer):
            break
        following = _page_number(answer) + 1
        answer = _whole(call.with_keywords(page=following).make(session), keys)
        if _page_number(answer) != following:
            raise BadAnswer(f"page {following} was asked for, and the server gave page {_page_number(answer)}")
    if not listing.streams:
        listing.show({**answer, "data": rows, "pagination": _one_page(answer, len(rows))}, rows)


def _whole(answer: JsonObject, keys: tuple[str, ...]) -> JsonObject:
    empty = dict.fromkeys(keys)
    return {**answer, "data": [{**empty, **row} for row in answer["data"]]}


def _has_next(answer: JsonObject) -> bool:
    total: int = (answer.get("pagination") or {}).get("total_pages", 1)
    return _page_number(answer) < total


def _page_number(answer: JsonObject) -> int:
    number: int = (answer.get("pagination") or {}).get("page", 1)
    return number


def _one_page(answer: JsonObject, rows: int) -> JsonObject:
    """The pagination of pages that were joined."""
    joined = {"page": 1, "current_page_size": rows, "total_pages": 1, "total_results": rows}
    return {**(answer.get("pagination") or {}), **joined}


@app.command("list-execution-profiles")
def list_execution_profiles(
    context: typer.Context,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
    stream: params.Stream = False,
) -> None:
    """List where steps can run: provider, profile, backend and its settings."""
    options = ListOptions(output_format, no_truncate, output_columns, stream)
    listing = Listing(context.obj, options, _PROFILE_COLUMNS)
    call = Call("list_execution_profiles")
    if listing.wants_code:
        context.obj.terminal.say(call.snippet(context.obj))
        return
    rows = call.make(context.obj)
    listing.show(rows, rows)


@app.command()
def get(
    context: typer.Context,
    name: params.Job,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Show a job."""
    show_entity(context.obj, Call("get_job", (name,), {"workspace": workspace}), output_format)


@app.command("get-status")
def get_status(
    context: typer.Context,
    name: params.Job,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Show the status of a job, its steps and their tasks."""
    show_entity(context.obj, Call("get_job_status", (name,), {"workspace": workspace}), output_format)


@app.command()
def cancel(
    context: typer.Context,
    name: params.LiveJob,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Ask a job to end. The answer shows it after the request; its end follows."""
    _steer(context.obj, "cancel", name, workspace, output_format)


@app.command()
def pause(
    context: typer.Context,
    name: params.UnpausedJob,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Ask a job to pause. Its profile says whether the step is stopped and begins anew later, or is frozen."""
    _steer(context.obj, "pause", name, workspace, output_format)


@app.command()
def resume(
    context: typer.Context,
    name: params.PausedJob,
    workspace: params.Workspace = None,
    output_format: params.Entity = None,
) -> None:
    """Ask a paused job to go on."""
    _steer(context.obj, "resume", name, workspace, output_format)


def _steer(session: Session, verb: str, name: str, workspace: str | None, output_format: EntityFormat | None) -> None:
    """Ask for it and show the job after that; the API takes the request of a job that it does not concern, too."""
    answer = show_entity(session, Call(f"{verb}_job", (name,), {"workspace": workspace}), output_format)
    status = answer.get("status") if isinstance(answer, dict) else None
    if status in TERMINAL:
        session.terminal.note(f"Job '{name}' has ended ({status}): there is nothing to {verb}.")
    elif verb == "resume" and status == Status.ACTIVE:
        session.terminal.note(f"Job '{name}' is active, not paused: there is nothing to resume.")


@app.command()
def delete(context: typer.Context, name: params.EndedJob, workspace: params.Workspace = None) -> None:
    """Remove an ended job with its log and results."""
    session: Session = context.obj
    Call("delete_job", (name,), {"workspace": workspace}).make(session)
    session.terminal.say("✓ Deleted successfully", colour="green")
