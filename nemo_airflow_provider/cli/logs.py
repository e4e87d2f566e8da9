"""`nemo jobs get-logs`, `tail` and `watch`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nemo_airflow_provider.cli import params
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.jobs import app
from nemo_airflow_provider.cli.loglines import print_log_lines
from nemo_airflow_provider.cli.output import Listing, ListOptions, lines_of
from nemo_airflow_provider.cli.progress import INTERRUPTED, WatchView, now
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client.jobs import LogFilter
from nemo_airflow_provider.client.loglines import PAGE_LINES, LogEnd, WholeLog
from nemo_airflow_provider.client.watch import FINAL_STATUSES, LogLines, Watch, WatchWarning

_COLUMNS = ("timestamp", "message")
_MOST_LINES = 10_000


@app.command("get-logs")
def get_logs(
    context: typer.Context,
    name: params.Job,
    workspace: params.Workspace = None,
    attempt_id: params.Attempt = None,
    step_id: params.Step = None,
    task_id: params.Task = None,
    limit: Annotated[int | None, typer.Option(help="Lines of a page.", show_default="100")] = None,
    page_cursor: Annotated[str | None, typer.Option(help="next_page or prev_page of a page.")] = None,
    tail: Annotated[int | None, typer.Option(help="The last lines instead of the first.")] = None,
    all_pages: params.AllPages = False,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
    stream: params.Stream = False,
) -> None:
    """Print a page of a job's log, oldest line first."""
    session: Session = context.obj
    listing = Listing(session, ListOptions(output_format, no_truncate, output_columns, stream), _COLUMNS)
    which = LogFilter(attempt_id, step_id, task_id)
    keywords = {
        "workspace": workspace,
        "which": which if which != LogFilter() else None,
        "limit": limit,
        "page_cursor": page_cursor,
        "tail": tail,
    }
    call = Call("get_logs", (name,), keywords)
    if listing.wants_code:
        session.terminal.say(call.snippet(session))
        return
    if not all_pages or tail is not None:
        page = call.make(session)
        listing.show(page, page["data"], more=page.get("next_page") is not None)
        return
    with session.client() as client:
        pages = client.log_pages(name, workspace=workspace, which=which, limit=limit, page_cursor=page_cursor)
        if listing.streams:
            listing.stream(lines_of(pages))
        else:
            rows = list(lines_of(pages))
            listing.show({"data": rows, "next_page": None}, rows)


def _check_lines(lines: int) -> int:
    if not 1 <= lines <= _MOST_LINES:
        raise typer.BadParameter(f"{lines} is not in the range 1<=x<={_MOST_LINES}.")
    return lines


@app.command()
def tail(
    context: typer.Context,
    name: params.Job,
    lines: Annotated[
        int,
        typer.Option("-n", "--lines", metavar="1..10000", callback=_check_lines, help="How many lines."),
    ] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Go on with new lines until the job ends or Ctrl-C.")
    ] = False,
    workspace: params.Workspace = None,
    attempt_id: params.Attempt = None,
    step_id: params.Step = None,
    task_id: params.Task = None,
) -> None:
    """Print the last lines of a job's log."""
    session: Session = context.obj
    which = LogFilter(attempt_id, step_id, task_id)
    with session.client() as client:
        if not follow:
            page = client.get_logs(name, workspace=workspace, which=which, tail=lines)
            print_log_lines(page["data"], sys.stdout)
            return
        watch = Watch(
            client,
            name,
            workspace=workspace,
            lines=LogEnd(client, name, lines=lines, workspace=workspace, which=which),
            end_statuses=FINAL_STATUSES,
            sleep=session.sleep,
        )
        try:
            for event in watch.events():
                if isinstance(event, LogLines):
                    print_log_lines(event.rows, sys.stdout)
                elif isinstance(event, WatchWarning):
                    session.terminal.note(f"[{now()}] {event.message}", colour="yellow")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


@app.command("watch")
def watch_job(
    context: typer.Context,
    name: params.Job,
    workspace: params.Workspace = None,
    attempt_id: params.Attempt = None,
    step_id: params.Step = None,
    task_id: params.Task = None,
    limit: Annotated[int, typer.Option(help="Lines fetched at once.")] = PAGE_LINES,
    timeout: Annotated[int | None, typer.Option(min=1, help="Give up after so many seconds.")] = None,
    poll_interval: params.PollInterval = None,
    history: Annotated[bool, typer.Option("--history/--no-history", help="Print lines from before.")] = True,
) -> None:
    """Follow a job to its end: status changes and log lines. Exit code 0 means completed."""
    session: Session = context.obj
    with session.client() as client:
        which = LogFilter(attempt_id, step_id, task_id)
        watch = Watch(
            client,
            name,
            workspace=workspace,
            lines=WholeLog(client, name, workspace=workspace, which=which, limit=limit),
            history=history,
            poll_interval_seconds=poll_interval,
            timeout_seconds=timeout,
            sleep=session.sleep,
        )
        raise typer.Exit(WatchView(name, session.terminal, sys.stdout, workspace=workspace).follow(watch.events()))
