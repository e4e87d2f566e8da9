"""`--filter` and the `--filter.FIELD` options of the list commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nemo_airflow_provider.cli.failures import UsageError
from nemo_airflow_provider.client.transport import JsonObject

_EXAMPLES = (
    """Examples: '{"status": "completed"}', '{"name": {"$like": "train"}}', """
    """'{"created_at": {"gte": "2026-01-01T00:00:00Z"}}'"""
)


def combined(text: str | None, fields: Mapping[str, str | Sequence[str] | None]) -> JsonObject | str | None:
    """The filter to send: a text filter as it is, a JSON filter with the field options merged in (they win).

    :raises UsageError: no JSON though it begins like it, or a text filter beside field options
    """
    given = {name: _value(value) for name, value in fields.items() if value}
    if text is None or not text.strip():
        return given or None
    if not text.lstrip().startswith("{"):
        if given:
            raise UsageError(
                "A text --filter cannot be combined with --filter.FIELD options; write the fields into the "
                'text, for example: --filter \'name~"train" AND status:"completed"\''
            )
        return text
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"Invalid filter JSON: {error}\n{_EXAMPLES}") from error
    return {**parsed, **given}


def _value(value: str | Sequence[str]) -> str | list[str]:
    if isinstance(value, str):
        return value
    return value[0] if len(value) == 1 else list(value)
