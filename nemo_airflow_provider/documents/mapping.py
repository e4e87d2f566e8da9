"""A JSON or YAML object that a person wrote, as the wire can carry it: what `--input-file` and job files hold."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from nemo_airflow_provider.documents import yamltext
from nemo_airflow_provider.documents.inputfile import UnreadableFile, read_text
from nemo_airflow_provider.errors import NemoJobsError

#: Of a job's body; the jobs API takes no larger one.
MOST_BYTES = 8 * 1024 * 1024

_TOO_LARGE_REMEDY = (
    "Write it as JSON, which may have more, or put the data into a file or an object store and name that in the "
    "step's `config`."
)


class NoMapping(NemoJobsError):
    """No object can be made of it; the text goes on from the name of what was read."""

    exit_code = 2


def load(path: Path) -> dict[str, Any]:
    """The object in a file.

    :raises NoMapping: it cannot be read, or holds none
    """
    try:
        text = read_text(path, limit_bytes=MOST_BYTES)
    except FileNotFoundError as error:
        raise NoMapping(f"cannot be read: {error.strerror}") from error
    except UnreadableFile as error:
        raise NoMapping(f"cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, source: str) -> dict[str, Any]:
    """The object that a text stands for.

    :param source: where the text comes from, for people
    :raises NoMapping: it stands for none, or for one that JSON cannot express
    """
    try:
        value = _json(text)
    except (ValueError, RecursionError) as error:
        # JSON is YAML too, and the reader of YAML says where a fault is.
        value = _on_the_wire(_yaml(text, source, error))
    if not isinstance(value, dict):
        raise NoMapping(f"must be a JSON or YAML object, not {_kind(value)}.")
    return value


def _on_the_wire(value: Any) -> Any:
    """The value of a YAML text, as JSON can say it."""
    try:
        # YAML knows dates, number keys, NaN and loops; the wire does not.
        wire = json.dumps(value, default=_isoformat, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NoMapping(f"holds something that JSON cannot express: {error}") from error
    try:
        return json.loads(wire, object_pairs_hook=_unique)
    except ValueError as error:
        raise NoMapping(f"cannot be used: {error}") from error


def _json(text: str) -> Any:
    """JSON as strict as the wire; what it stands for is never much larger than its text.

    :raises ValueError: no JSON
    :raises RecursionError: too deep
    """
    return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key '{name}' is given twice")
        found[name] = value
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _isoformat(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def _yaml(text: str, source: str, json_error: Exception) -> Any:
    """The value of a text that is no JSON.

    :param json_error: why it is none
    """
    try:
        return yamltext.parse(text, source)
    except yamltext.TooLarge as error:
        # Nobody begins YAML with a brace and goes on like this: it is meant as JSON.
        if text.lstrip().startswith(("{", "[")):
            raise NoMapping(f"cannot be used: as JSON, {json_error}") from error
        raise NoMapping(f"cannot be used: {error}. {_TOO_LARGE_REMEDY}") from error
    except yamltext.Refused as error:
        raise NoMapping(f"cannot be used: {error}") from error
    except ValueError as error:
        raise NoMapping(f"is neither JSON nor YAML: {error}") from error


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return {list: "a list", str: "text", bool: "a truth value"}.get(type(value), "a number")
