"""`nemo config view`: what is in force and where it comes from, without secrets."""

from __future__ import annotations

from typing import Any

import typer

from nemo_airflow_provider.cli import params
from nemo_airflow_provider.cli.failures import UsageError
from nemo_airflow_provider.cli.output import EntityFormat, entity_format, print_entity
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.client.address import without_credentials

app = typer.Typer(name="config", help="Look at the configuration.", no_args_is_help=True)

_SECRET_WORDS = ("token", "secret", "password", "credential", "api_key")
_HIDDEN = "***"


@app.callback()
def config() -> None:
    """Look at the configuration."""


@app.command()
def view(context: typer.Context, output_format: params.Entity = None) -> None:
    """Show the settings in force and the context file; secrets read ***."""
    session: Session = context.obj
    chosen = entity_format(session, output_format)
    if chosen is EntityFormat.CODE:
        raise UsageError("There is no code for this; use json, yaml or raw.")
    record = session.record
    print_entity(
        {
            "config_file": str(session.file),
            "context": record.name if record else None,
            "base_url": session.display_url,
            "base_url_source": session.base_url.source,
            "workspace": session.workspace,
            "token": session.token_source,
            "file": masked(session.content),
        },
        chosen,
    )


def masked(value: Any, key: str = "") -> Any:
    """`value` with everything that looks like a secret replaced, at any depth."""
    if isinstance(value, dict):
        return {name: masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    lowered = key.lower()
    if isinstance(value, str) and key.endswith("url"):
        return without_credentials(value)
    if value is not None and any(word in lowered for word in _SECRET_WORDS):
        return _HIDDEN
    return value
