"""The job that `create` sends: put together from options and input, and checked before it travels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.cli import yamltext
from nemo_airflow_provider.cli.failures import InvalidBody, MissingOptions, UsageError
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.model import names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: Options whose text is JSON (or YAML).
OBJECTS = ("platform_spec", "spec", "custom_fields", "ownership")

_REQUIRED = {
    "platform_spec": "--platform-spec JSON  the job's steps",
    "source": "--source TEXT         where the job comes from",
    "spec": "--spec JSON           your own description of the job, echoed; {} will do",
}
_NAME_RULE = (
    "2 to 63 characters: a lower-case letter, then lower-case letters, digits, - @ . + _; no --, and no - at the end"
)
# Below this `profile` would pass for `provider`.
_NEARNESS = 0.75


def merged(options: Mapping[str, Any], *, input_file: str | None, input_data: str | None) -> JsonObject:
    """The body: options over `--input-data` over `--input-file`.

    :raises UsageError: input that is no mapping, or an option that is no JSON
    """
    body: JsonObject = {}
    if input_file is not None:
        source = "stdin" if input_file == "-" else input_file
        body.update(_mapping(_read(input_file), f"--input-file {input_file}", source))
    if input_data is not None:
        body.update(_mapping(input_data, "--input-data"))
    for name, value in options.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            body[name] = _mapping(value, flag) if name in OBJECTS else value
    return body


def check(body: JsonObject) -> None:
    """Refuse what the server would refuse for its shape.

    :raises MissingOptions: without `platform_spec`, `source` or `spec`
    :raises InvalidBody: not a job
    """
    missing = [line + _near_key(name, body) for name, line in _REQUIRED.items() if body.get(name) is None]
    if missing:
        raise MissingOptions(missing)
    from pydantic import ValidationError

    from nemo_airflow_provider.model.spec import JobRequest

    try:
        JobRequest.model_validate(body)
    except ValidationError as error:
        problems = [(_path(item["loc"]), _message(item)) for item in error.errors()]
        raise InvalidBody(problems) from error


def _message(problem: ErrorDetails) -> str:
    """pydantic's words, and what they leave out."""
    text, kind, limits = problem["msg"], problem["type"], problem.get("ctx", {})
    if kind == "string_pattern_mismatch" and limits["pattern"] == names.NAME_PATTERN:
        return f"{text} ({_NAME_RULE})"
    if kind == "missing":
        return text + _near_key(str(problem["loc"][-1]), problem["input"])
    if kind == "union_tag_not_found":
        return text + _near_key(limits["discriminator"].strip("'"), problem["input"])
    return text


def _near_key(missing: str, given: Mapping[str, Any]) -> str:
    """` (did you mean …?)` when a key of the object looks like the missing one."""
    near = get_close_matches(missing, given, n=1, cutoff=_NEARNESS)
    return f" (did you mean '{missing}' for '{near[0]}'?)" if near else ""


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "job"


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"Cannot read --input-file {name}: {reason}") from error


def _mapping(text: str, where: str, source: str | None = None) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _yaml(text, where, source or where)
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON or YAML object, not {_kind(value)}.")
    try:
        # YAML knows dates, number keys, NaN and loops; the wire does not.
        return dict(json.loads(json.dumps(value, default=_isoformat, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{where} holds something that JSON cannot express: {error}") from error


def _isoformat(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def _yaml(text: str, where: str, source: str) -> Any:
    try:
        return yamltext.parse(text, source)
    except ValueError as error:
        raise UsageError(f"{where} is neither JSON nor YAML: {error}") from error


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return {list: "a list", str: "text", bool: "a truth value"}.get(type(value), "a number")
