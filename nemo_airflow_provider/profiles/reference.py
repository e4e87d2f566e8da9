"""The reference page of the configuration file, made from the models that check it.

`python -m nemo_airflow_provider.profiles.reference > docs/reference/configuration.md` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nemo_airflow_provider.backends.config import BackendConfig
from nemo_airflow_provider.backends.registry import BACKENDS, LEFT_OUT, BackendEntry
from nemo_airflow_provider.profiles import variables
from nemo_airflow_provider.profiles.platform import PlatformConfig
from nemo_airflow_provider.profiles.sections import JobsSection, ProfileEntry

_HEAD = """\
# Configuration file

<!-- Made by `python -m nemo_airflow_provider.profiles.reference`; do not edit. -->

A YAML file says which execution profiles there are and how their steps run. Its path is the option
`[nemo] config_file` of Airflow, else the variable `NHX_CONFIG_FILE_PATH`; without either, only the built-in
profiles exist. A changed file counts at the next request.

The file may be shared with NeMo Helix: top-level sections other than `jobs` and `platform`, and keys of
`platform` that are not listed here, are ignored. Everywhere else an unknown key is an error that names file,
line, key and the nearest known name. All errors of a file are told at once.

Tested examples are in [docs/examples](../examples/). `airflow nemo config check FILE` says what is wrong with a file
and shows the merged profiles ([guide](../guides/check.md)). Editors complete and check keys with
[jobs.schema.json](jobs.schema.json), named in the first line: `# yaml-language-server: $schema=PATH-OR-URL`.
"""

_BUILT_IN = """\
## Built-in profiles

| `platform.runtime` | profiles |
|---|---|
"""

_MERGE = """
An item of `jobs.executors` whose `provider` and `profile` are new is added to the list; what it does not write
has the default of its backend, never that of `executor_defaults`. An item that names a built-in profile takes
its place: with another backend wholly, with the same backend key by key, where a nested mapping counts as one
key.
"""

_WORDS = {str: "text", int: "integer", bool: "boolean", float: "number", Any: "anything"}


def reference_page() -> str:
    """The page as Markdown."""
    parts = [
        _HEAD,
        f"## `platform`\n\n{_table(PlatformConfig)}",
        _without_effect("platform", PlatformConfig.without_effect),
        f"## `jobs`\n\n{_table(JobsSection)}",
        f"### An item of `executors`\n\n{_table(ProfileEntry)}",
        _backends(),
        _BUILT_IN + "".join(_built_in(runtime) for runtime in ("docker", "kubernetes", "none")) + _MERGE,
        *_config_sections(),
        "## Environment variables\n\n| variable | meaning |\n|---|---|\n"
        + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in _variables().items()),
    ]
    return "\n".join(part for part in parts if part)


def _backends() -> str:
    rows = "".join(
        f"| `{name}` | {', '.join(f'`{provider}`' for provider in entry.providers)} | "
        f"{f'`{entry.requirement}`' if entry.extra else 'nothing more'} |\n"
        for name, entry in BACKENDS.items()
    )
    skipped = " and ".join(f"`{name}`" for name in LEFT_OUT)
    return (
        f"| backend | providers | needs |\n|---|---|---|\n{rows}\n"
        f"Items with the backends {skipped} are skipped with a warning.\n"
    )


def _built_in(runtime: str) -> str:
    switches = {"enable_subprocess_executor": None}
    names = [
        f"`{provider}/{profile}` ({backend})"
        for backend, entry in BACKENDS.items()
        for provider, profile in entry.config_class.built_in_profiles(runtime, switches)
    ]
    return f"| `{runtime}` | {', '.join(names)} |\n"


def _variables() -> dict[str, str]:
    found = dict(variables.DESCRIPTIONS)
    for entry in BACKENDS.values():
        for name, path in entry.config_class.environment_defaults.items():
            found[name] = f"Default of `{'.'.join(path)}` in `{entry.name}` profiles."
    return found


def _config_sections() -> Iterator[str]:
    """A section for each config class, those that others build on first."""
    done: set[type] = set()
    for entry in BACKENDS.values():
        for model in reversed(_lineage(entry)):
            if model in done:
                continue
            done.add(model)
            if model is entry.config_class:
                yield _backend_section(entry)
            else:
                yield f"## {model.title}\n\n{_table(model, _own_fields(model))}"
                yield _without_effect("config", model.without_effect & set(_own_fields(model)))


def _backend_section(entry: BackendEntry) -> str:
    model = entry.config_class
    shared = [base.title for base in _lineage(entry)[1:]]
    own = _own_fields(model)
    intro = f"Also: {'; '.join(title[0].lower() + title[1:] for title in reversed(shared))}.\n"
    table = f"\n{_table(model, own)}" if own else ""
    return f"## Keys of `{entry.name}`\n\n{intro}{table}"


def _lineage(entry: BackendEntry) -> list[type[BackendConfig]]:
    return [base for base in entry.config_class.__mro__ if issubclass(base, BackendConfig)]


def _own_fields(model: type[BaseModel]) -> list[str]:
    return [name for name in model.model_fields if name in model.__annotations__]


def _without_effect(where: str, keys: frozenset[str]) -> str:
    listed = ", ".join(f"`{key}`" for key in sorted(keys))
    return f"Accepted without effect in `{where}`: {listed}.\n" if keys else ""


def _table(model: type[BaseModel], names: list[str] | None = None) -> str:
    rows = "".join(_rows(model, "", names))
    return f"| key | type | default | meaning |\n|---|---|---|---|\n{rows}"


def _rows(model: type[BaseModel], prefix: str, names: list[str] | None = None) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if names is not None and name not in names:
            continue
        key = f"{prefix}{name}"
        yield f"| `{key}` | {_type(field)} | {_default(field)} | {field.description} |\n"
        nested, many = _nested(field.annotation)
        if nested is not None:
            yield from _rows(nested, f"{key}[]." if many else f"{key}.")


def _nested(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The model inside an annotation, and whether there is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for part in get_args(annotation):
        model, many = _nested(part)
        if model is not None:
            return model, many or get_origin(annotation) is list
    return None, False


def _type(field: FieldInfo) -> str:
    text = _type_name(field.annotation)
    for bound in field.metadata:
        if hasattr(bound, "ge"):
            text += f" ≥ {bound.ge}"
        elif getattr(bound, "min_length", 0):
            text += ", not empty"
    return text


def _type_name(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(_type_name(part) for part in parts if part is not type(None))
    if origin is list:
        return f"list of {_type_name(parts[0])}"
    if origin is dict:
        return "mapping" if parts[1] is Any else f"mapping to {_type_name(parts[1])}"
    return _WORDS.get(annotation, "mapping")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined or value is None or isinstance(value, BaseModel):
        return ""
    return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    print(reference_page(), end="")
