"""What a shell offers for the word at the cursor: asked of the server, within a second, silent about every failure.

zsh evaluates what it is told here, and bash expands it. So a value is offered only when no shell reads anything else
into it, whatever the server says, and what is said about it holds words and numbers of our own.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TypeGuard

import typer

from nemo_airflow_provider.cli import contextfile
from nemo_airflow_provider.cli.session import GlobalOptions, Session
from nemo_airflow_provider.cli.tables import distance
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.moments import parse_moment
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.model.status import TERMINAL, Status

#: A value, and what is said about it where the shell shows that; "" for nothing.
Offer = tuple[str, str]
Completer = Callable[[typer.Context, str], list[Offer]]

ENDED = frozenset(map(str, TERMINAL))
#: Those that a cancel changes.
LIVE = frozenset(map(str, Status)) - ENDED - {str(Status.CANCELLING)}
#: Those that a resume changes, at once or when they have paused.
PAUSED = frozenset({str(Status.PAUSED), str(Status.PAUSING)})
#: Those that a pause changes.
UNPAUSED = LIVE - PAUSED

#: typer's variable for the program `nemo`; its value is `complete_SHELL`, or `source_SHELL` for the shell's script.
VARIABLE = "_NEMO_COMPLETE"
#: Seconds for the server's answer; for servers that are far away.
LIMIT = "NEMO_COMPLETION_SECONDS"
#: With the start of the process, about a second.
_SECONDS = 0.6
_MOST_OFFERS = 50
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9@+._-]{0,252}")
#: bash makes words of their own of these, which it gets as part of a URL or of `--option=value`.
_BREAKS = re.compile(r"[@:=]+")


def is_asked(environ: Mapping[str, str]) -> bool:
    """Whether a shell asks for what could follow, instead of a person for something to be done."""
    return environ.get(VARIABLE, "").startswith("complete_")


def answer(run: Callable[[], object], environ: MutableMapping[str, str]) -> int:
    """Let the parser answer the shell; the exit code.

    :param run: parses the command line, which with `VARIABLE` set answers on stdout and leaves with `SystemExit`
    """
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.suppress(Exception):
        if environ[VARIABLE] != "complete_bash" or _mend_words(environ):
            run()
    return 0


def jobs(statuses: frozenset[str] | None = None) -> Completer:
    """Offers the newest jobs of the workspace.

    :param statuses: of those that make sense
    """

    def complete(context: typer.Context, incomplete: str) -> list[Offer]:
        return _asked(context, lambda client: _jobs(client, _workspace(context), incomplete, statuses))

    return complete


def steps(context: typer.Context, incomplete: str) -> list[Offer]:
    """Offers the steps of the job on the line that have begun."""
    return _asked(context, lambda client: _rows(_steps(client, context), incomplete))


def tasks(context: typer.Context, incomplete: str) -> list[Offer]:
    """Offers the tasks of the step on the line, or of all steps of the job."""
    step = context.params.get("step_id") or context.params.get("step")

    def ask(client: JobsClient) -> list[Offer]:
        of = [row for row in _steps(client, context) if step in (None, row.get("name"))]
        return _rows((task for row in of for task in row.get("tasks") or ()), incomplete)

    return _asked(context, ask)


def contexts(context: typer.Context, incomplete: str) -> list[Offer]:
    """Offers the contexts of the context file."""
    return _within_time(lambda: _named(_session(context), "name", incomplete))


def workspaces(context: typer.Context, incomplete: str) -> list[Offer]:
    """Offers the workspaces that the context file knows; the jobs API lists none."""
    return _within_time(lambda: _named(_session(context), "workspace", incomplete))


def words(*known: str) -> Completer:
    """Offers words that are known here."""

    def complete(context: typer.Context, incomplete: str) -> list[Offer]:
        del context
        return [(word, "") for word in known if word.startswith(incomplete)]

    return complete


statuses = words(*Status)


def _jobs(client: JobsClient, workspace: str | None, prefix: str, statuses: frozenset[str] | None) -> list[Offer]:
    """The newest page; a server is asked for statuses only if none of that page fits, since that costs it more."""
    asked: JsonObject = {"name": {"$startsWith": prefix}} if prefix else {}
    page = _page(client, workspace, asked)
    offers = _rows(page["data"], prefix, statuses)
    if not offers and statuses and page.get("pagination", {}).get("total_pages", 1) > 1:
        page = _page(client, workspace, asked | {"status": sorted(statuses)})
        offers = _rows(page["data"], prefix, statuses)
    return offers


def _page(client: JobsClient, workspace: str | None, asked: JsonObject) -> JsonObject:
    return client.list_jobs(workspace=workspace, filter=asked or None, sort="-created_at", page_size=_MOST_OFFERS)


def _steps(client: JobsClient, context: typer.Context) -> list[JsonObject]:
    job = _job(context)
    if not job:
        return []
    found = client.get_job_status(job, workspace=_workspace(context)).get("steps")
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _job(context: typer.Context) -> str | None:
    """The job that the line names."""
    given = context.params
    # An option that still lacks its value keeps the parser from naming the arguments before it.
    job: str | None = given["job"] if "job" in given else given.get("name") or next(iter(context.args), None)
    return job


def _rows(rows: Iterable[JsonObject], prefix: str, statuses: frozenset[str] | None = None) -> list[Offer]:
    """An offer for each row of the server that can be one."""
    offers: dict[str, str] = {}
    for row in rows:
        name = row.get("name")
        if _fits(name, prefix) and (statuses is None or _status(row) in statuses):
            offers[name] = _about(row)
    return list(offers.items())[:_MOST_OFFERS]


def _fits(name: Any, prefix: str) -> TypeGuard[str]:
    return isinstance(name, str) and name.startswith(prefix) and _HARMLESS.fullmatch(name) is not None


def _about(row: JsonObject) -> str:
    """`active, 3m ago`."""
    said, created = [_status(row)], row.get("created_at")
    if isinstance(created, str) and parse_moment(created):
        said.append(distance(created, datetime.now(UTC)))
    return ", ".join(filter(None, said))


def _status(row: JsonObject) -> str:
    """The status, if it is one that we know; else ""."""
    status = row.get("status")
    return status if isinstance(status, str) and status in list(Status) else ""


def _named(session: Session, key: str, prefix: str) -> list[Offer]:
    found = (record.get(key) for record in contextfile.records(session.content, "contexts"))
    return [(name, "") for name in dict.fromkeys(found) if _fits(name, prefix)]


def _workspace(context: typer.Context) -> str | None:
    workspace: str | None = context.params.get("workspace")
    return workspace


def _session(context: typer.Context) -> Session:
    """The session with the global options on the line. No command runs, so nobody else has put them there."""
    session: Session = context.obj
    given = context.find_root().params
    session.options = GlobalOptions(
        context=given.get("context_name"),
        base_url=given.get("base_url"),
        access_token=given.get("access_token"),
    )
    return session


def _asked(context: typer.Context, question: Callable[[JobsClient], list[Offer]]) -> list[Offer]:
    with contextlib.suppress(Exception):
        # Here, so that what it imports does not count.
        client = _session(context).client(tries=1)
        return _within_time(lambda: _answered(client, question))
    return []


def _answered(client: JobsClient, question: Callable[[JobsClient], list[Offer]]) -> list[Offer]:
    with client, client.within(_seconds()):
        return question(client)


def _within_time(ask: Callable[[], list[Offer]]) -> list[Offer]:
    """The answer; nothing when there is none in time. A look-up of the server's address cannot be interrupted."""
    offers: list[Offer] = []

    def keep() -> None:
        with contextlib.suppress(Exception):
            offers.extend(ask())

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    thread.join(_seconds())
    return list(offers)


def _seconds() -> float:
    with contextlib.suppress(ValueError):
        return min(float(os.environ.get(LIMIT, _SECONDS)), threading.TIMEOUT_MAX)
    return _SECONDS


def _mend_words(environ: MutableMapping[str, str]) -> bool:
    """Put together what bash took apart at `:`, `=` and `@`; False if no answer could fit the word at the cursor."""
    pieces = environ["COMP_WORDS"].split("\n")
    cursor = int(environ["COMP_CWORD"])
    mended, index = pieces[:1], 0
    for position, piece in enumerate(pieces[1 : cursor + 1], start=1):
        joins = _BREAKS.fullmatch(piece) or (piece and _BREAKS.fullmatch(pieces[position - 1]))
        if joins and position > 1:
            mended[-1] += piece
        else:
            mended.append(piece)
        index = len(mended) - 1
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(mended), str(index)
    # bash replaces what is behind the last of these characters only; the parser knows that of `--option=`.
    return not re.search("[@:]", mended[index])
