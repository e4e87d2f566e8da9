"""`nemo gpus`: who has the GPUs, and who waits for them."""

from __future__ import annotations

from typing import Any

import typer

from nemo_airflow_provider.cli import params
from nemo_airflow_provider.cli.calls import Call
from nemo_airflow_provider.cli.output import Listing, ListOptions
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client.transport import JsonObject

_COLUMNS = ("gpu", "name", "state", "workspace", "job", "step", "since")
_WAITING = ("position", "gpus", "workspace", "job", "step", "since")


def gpus(
    context: typer.Context,
    output_format: params.List = None,
    no_truncate: params.NoTruncate = False,
    output_columns: params.Columns = "default",
) -> None:
    """List the GPUs that jobs may use: who has each, and who waits in line.

    Jobs that you may not read have no names here.
    """
    session: Session = context.obj
    call = Call("list_gpus")
    options = ListOptions(output_format, no_truncate, output_columns)
    if Listing(session, options, _COLUMNS).wants_code:
        session.terminal.say(call.snippet(session))
        return
    answer = call.make(session)
    engines: list[JsonObject] = answer["engines"]
    which = ("profiles",) if len(engines) > 1 else ()
    listing = Listing(session, options, (*_COLUMNS, *which))
    listing.show(answer, [_device(engine, row) for engine in engines for row in engine["devices"]])
    waiters = [_waiter(engine, row) for engine in engines for row in engine["waiters"]]
    if waiters and listing.is_drawn:
        session.terminal.say("\nWaiting:")
        Listing(session, ListOptions(output_format, no_truncate), (*_WAITING, *which)).show(answer, waiters)
    _tell(session, answer)


def _device(engine: JsonObject, row: JsonObject) -> JsonObject:
    holder: Any = row.get("holder")
    step = holder if isinstance(holder, dict) else {}
    shown = {key: value for key, value in row.items() if key not in ("id", "holder")}
    return {"gpu": row.get("id"), **shown, **step, "profiles": _profiles(engine)}


def _waiter(engine: JsonObject, row: JsonObject) -> JsonObject:
    return {**row, "profiles": _profiles(engine)}


def _profiles(engine: JsonObject) -> str:
    return ", ".join(map(str, engine.get("profiles") or ()))


def _tell(session: Session, answer: JsonObject) -> None:
    """What is no row goes where notes go."""
    if note := answer.get("note"):
        session.terminal.note(str(note))
    for engine in answer["engines"]:
        if error := engine.get("error"):
            session.terminal.note(f"{_profiles(engine)}: {error}", colour="yellow")
        elif not engine["devices"]:
            session.terminal.note(f"{_profiles(engine)}: its host has no GPU that jobs may use")
