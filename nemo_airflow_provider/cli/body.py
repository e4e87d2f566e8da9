"""The job that `create` sends: put together from options and input, and checked before it travels."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.cli.failures import InvalidBody, MissingOptions, UsageError
from nemo_airflow_provider.client.transport import JsonObject
from nemo_airflow_provider.documents import mapping
from nemo_airflow_provider.documents.inputfile import UnreadableFile, read_stdin, read_text
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
# Comparing takes its time, and who has more keys has not misspelt one.
_MOST_COMPARED = 100


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
            body[name] = _object(value, flag) if name in OBJECTS else value
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
        problems = [(_path(item["loc"]), _message(item, body)) for item in error.errors()]
        raise InvalidBody(problems) from error


def _message(problem: ErrorDetails, body: JsonObject) -> str:
    """pydantic's words, and what they leave out."""
    text, kind, limits = problem["msg"], problem["type"], problem.get("ctx", {})
    if kind == "string_pattern_mismatch" and limits["pattern"] == names.NAME_PATTERN:
        return f"{text} ({_NAME_RULE})"
    if kind in ("missing", "value_error"):
        return text + _near_sibling(problem["loc"], body)
    if kind == "union_tag_not_found":
        return text + _near_key(limits["discriminator"].strip("'"), problem["input"])
    return text


def _near_sibling(location: tuple[int | str, ...], body: JsonObject) -> str:
    """As `_near_key`, for the key that the location ends with."""
    *parents, key = location or ("",)
    holder: Any = body
    for part in parents:
        # Some parts name no place in the body but a kind of executor.
        with contextlib.suppress(KeyError, IndexError, TypeError):
            holder = holder[part]
    return _near_key(str(key), holder) if isinstance(holder, dict) and key not in holder else ""


def _near_key(missing: str, given: Mapping[str, Any]) -> str:
    """` (did you mean …?)` when a key of the object looks like the missing one."""
    near = get_close_matches(missing, islice(given, _MOST_COMPARED), n=1, cutoff=_NEARNESS)
    return f" (did you mean '{missing}' for '{near[0]}'?)" if near else ""


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "job"


def _object(text: str, flag: str) -> JsonObject:
    file = text.removeprefix("@")
    if os.path.isfile(file):
        raise UsageError(
            f'{flag} takes the JSON itself, not a file: {flag} "$(cat {shlex.quote(file)})". '
            "A file with the whole job goes to --input-file."
        )
    return _mapping(text, flag)


def _read(name: str) -> str:
    try:
        if name == "-":
            return read_stdin(limit_bytes=mapping.MOST_BYTES)
        return read_text(Path(name), limit_bytes=mapping.MOST_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"Cannot read --input-file {name}: {error.strerror}") from error
    except UnreadableFile as error:
        raise UsageError(f"Cannot read --input-file {name}: {error}") from error


def _mapping(text: str, where: str, source: str | None = None) -> JsonObject:
    try:
        return mapping.parse(text, source or where)
    except mapping.NoMapping as error:
        raise UsageError(f"{where} {error}") from error
