"""`nemo login`: a token of Airflow's, kept in the context file."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer

from nemo_airflow_provider.cli import contextfile
from nemo_airflow_provider.cli.failures import UsageError
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client import auth


def login(
    context: typer.Context,
    username: Annotated[
        str | None, typer.Option("--username", "-u", help="Airflow user; asked for when needed.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
    ] = False,
) -> None:
    """Get a token from the server and keep it in the context file.

    The server is the one in force (--base-url, NHX_BASE_URL, context). It becomes the server of the context.
    """
    session: Session = context.obj
    name = session.context_to_fill()
    base_url = session.base_url.value
    authority = session.certificate_authority
    token = None
    if username is None and not password_stdin:
        token = auth.token_without_password(base_url, certificate_authority=authority)
    if token is None:
        user = username or _ask("Username")
        password = _password(from_stdin=password_stdin)
        token = auth.token_for(base_url, user, password, certificate_authority=authority)
    _keep(session, name, base_url, token)


def _keep(session: Session, name: str, base_url: str, token: str) -> None:
    expires_at = auth.expiry(token)
    # Read again: the answers to our questions may have taken a while.
    content = contextfile.load(session.file)
    contextfile.store_login(content, name, base_url=base_url, token=token, expires_at=expires_at)
    contextfile.save(session.file, content)
    until = ""
    if expires_at is not None:
        until = f", valid until {datetime.fromtimestamp(expires_at).astimezone():%Y-%m-%d %H:%M:%S %z}"
    session.terminal.note(f"✓ Logged in to {session.display_url}{until}.", colour="green")
    session.terminal.note(f"The token is in context '{name}' of {session.file}.")
    if content.get("current_context") != name:
        session.terminal.note(f"It is not the current context: use it with nemo --context {name} …")


def _ask(question: str) -> str:
    _need_a_terminal("--username and --password-stdin")
    return str(typer.prompt(question, err=True))


def _password(*, from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise UsageError("--password-stdin: there is no password on stdin.")
        return password
    _need_a_terminal("--password-stdin")
    return str(typer.prompt("Password", hide_input=True, err=True))


def _need_a_terminal(instead: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"There is no terminal to ask on; use {instead}.")
