"""`nemo jobs create`, and waiting for or watching what it made."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from nemo_airflow_provider.cli import body, params
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.failures import UsageError
from nemo_airflow_provider.cli.jobs import app
from nemo_airflow_provider.cli.output import EntityFormat, entity_format, print_entity
from nemo_airflow_provider.cli.progress import INTERRUPTED, WaitView, WatchView
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client.loglines import WholeLog
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.client.watch import Watch

_DEFAULT_WAIT_SECONDS = 1200


@app.command()
def create(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the job; made from its source when absent.")
    ] = None,
    workspace: params.Workspace = None,
    platform_spec: Annotated[
        str | None, typer.Option(metavar="JSON", help="The job's steps. Required, here or in the input.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Where the job comes from. Required, as above.")] = None,
    spec: Annotated[
        str | None, typer.Option(metavar="JSON", help="Your own description of the job, echoed. Required, as above.")
    ] = None,
    custom_fields: Annotated[str | None, typer.Option(metavar="JSON")] = None,
    description: Annotated[str | None, typer.Option()] = None,
    output_location: Annotated[str | None, typer.Option(help="Fileset that receives the results.")] = None,
    ownership: Annotated[str | None, typer.Option(metavar="JSON")] = None,
    project: Annotated[str | None, typer.Option()] = None,
    input_file: Annotated[
        str | None,
        typer.Option("--input-file", "-i", metavar="PATH", help="The body as JSON or YAML; - is stdin."),
    ] = None,
    input_data: Annotated[
        str | None, typer.Option("--input-data", metavar="TEXT", help="The body as JSON or YAML text.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, without log lines.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow status and log lines to the end.")] = False,
    timeout: Annotated[
        int | None,
        typer.Option(min=1, help="Seconds to wait or watch.", show_default="1200 to wait, none to watch"),
    ] = None,
    poll_interval: params.PollInterval = None,
    output_format: params.Entity = None,
) -> None:
    """Create a job. Options win over the input; progress of --wait and --watch goes to stderr."""
    if wait and watch:
        raise UsageError("Cannot combine --wait and --watch.")
    if name is not None and input_file is None and Path(name).is_file():
        raise UsageError(f"'{name}' is a file, not a name. Did you mean --input-file {shlex.quote(name)}?")
    session: Session = context.obj
    given = {
        "name": name,
        "platform_spec": platform_spec,
        "source": source,
        "spec": spec,
        "custom_fields": custom_fields,
        "description": description,
        "output_location": output_location,
        "ownership": ownership,
        "project": project,
    }
    job = body.merged(given, input_file=input_file, input_data=input_data)
    body.check(job)
    call = Call("create_job", (job,), {"workspace": workspace})
    chosen = entity_format(session, output_format)
    if chosen is EntityFormat.CODE:
        session.terminal.say(call.snippet(session))
        return
    created = _made(session, call)
    print_entity(created, chosen)
    if wait or watch:
        follow = _wait if wait else _watch
        raise typer.Exit(follow(session, created["name"], workspace, timeout, poll_interval))


def _made(session: Session, call: Call) -> JsonObject:
    try:
        created: JsonObject = call.make(session)
    except KeyboardInterrupt:
        session.terminal.note(
            "Interrupted. The job may have been created: look with nemo jobs list before you create it again.",
            colour="yellow",
        )
        raise typer.Exit(INTERRUPTED) from None
    return created


def _wait(session: Session, name: str, workspace: str | None, timeout: int | None, poll_interval: float | None) -> int:
    seconds = timeout or _DEFAULT_WAIT_SECONDS
    view = WaitView(
        name,
        session.terminal,
        timeout_seconds=seconds,
        poll_interval_seconds=poll_interval,
        workspace=workspace,
    )
    with session.client() as client:
        watch = Watch(
            client,
            name,
            workspace=workspace,
            poll_interval_seconds=poll_interval,
            timeout_seconds=seconds,
            sleep=session.sleep,
        )
        return view.follow(watch.events())


def _watch(session: Session, name: str, workspace: str | None, timeout: int | None, poll_interval: float | None) -> int:
    with session.client() as client:
        watch = Watch(
            client,
            name,
            workspace=workspace,
            lines=WholeLog(client, name, workspace=workspace),
            poll_interval_seconds=poll_interval,
            timeout_seconds=timeout,
            sleep=session.sleep,
        )
        return WatchView(name, session.terminal, sys.stderr, workspace=workspace).follow(watch.events())
