"""Checks data against a pydantic model and tells each fault in one line: where, what, and the near name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.profiles.source import KeyPath, Place

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], data: object, place: Place, problems: list[str]) -> M | None:
    """The model made of `data`, or None after adding a line to `problems` for each fault."""
    try:
        made = model.model_validate(data)
    except ValidationError as error:
        problems.extend(_complaint(model, fault, place) for fault in error.errors(include_url=False))
        return None
    # What no path, no environment and no database can hold would fail far from here.
    if (flaw := flaw_in(made.model_dump(mode="json"))) is not None:
        problems.append(f"{place}: {flaw}")
        return None
    return made


def near_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean '…'?`, or nothing when no known name is near."""
    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def unknown_keys(data: Mapping[Any, Any], known: Iterable[str], place: Place) -> Iterator[str]:
    """A line for each key of `data` that is not known."""
    names = list(known)
    for key in data:
        if key not in names:
            yield f"{place.child(str(key))}: unknown key{near_name(str(key), names)}"


def _complaint(model: type[BaseModel], fault: ErrorDetails, place: Place) -> str:
    # pydantic marks a complaint about a mapping's key, not its value, with this last part.
    path = tuple(part for part in fault["loc"] if part != "[key]")
    if fault["type"] == "invalid_key":
        path = (*path[:-1], str(path[-1]))  # a number here is a key, not a position
    return f"{place.child(*path)}: {_reason(model, fault, path)}"


def _reason(model: type[BaseModel], fault: ErrorDetails, path: KeyPath) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown key{near_name(str(path[-1]), _keys_at(model, path[:-1]))}"
        case "missing":
            return "this key is required"
        case "value_error":
            return str(fault["ctx"]["error"])
        case "model_type":
            return "Input should be a mapping"
        case "string_type" if isinstance(fault["input"], bool | int | float):
            return f"{fault['msg']}; write the value in quotes"
        case _:
            return fault["msg"]


def _keys_at(annotation: Any, path: KeyPath) -> list[str]:
    """Keys of the model that stands at `path` below an annotation."""
    models = list(_models_in(annotation))
    if not path:
        return [name for model in models for name in model.model_fields]
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return _keys_at(annotation, rest)
    fields = [model.model_fields[key] for model in models if key in model.model_fields]
    return [name for field in fields for name in _keys_at(field.annotation, rest)]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (list, Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _models_in(part)
