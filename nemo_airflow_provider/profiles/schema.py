"""The JSON schema of the configuration file, for editors, made from the models that check the file.

`python -m nemo_airflow_provider.profiles.schema > docs/reference/jobs.schema.json` writes it anew. It knows keys,
types, bounds and reserved names; what takes more to judge, `airflow nemo config check` says.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nemo_airflow_provider.backends.config import BackendConfig
from nemo_airflow_provider.backends.registry import BACKENDS, DEFAULT_BACKEND, LEFT_OUT, BackendEntry
from nemo_airflow_provider.profiles.platform import PlatformConfig
from nemo_airflow_provider.profiles.sections import JobsSection, ProfileEntry

Schema = dict[str, Any]

_TITLE = "Configuration file of NeMo jobs on Airflow"


def file_schema() -> Schema:
    """The schema of the whole file; sections that are not ours are left alone."""
    classes: list[type[BaseModel]] = [PlatformConfig, JobsSection, ProfileEntry]
    classes += [entry.config_class for entry in BACKENDS.values()]
    _, made = models_json_schema([(each, "validation") for each in classes], ref_template="#/$defs/{model}")
    defined: Schema = _without_titles(made["$defs"])
    for model in classes:
        _mark_without_effect(model, defined[model.__name__])
    _describe_sections(defined)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": _TITLE,
        "type": "object",
        "properties": {"platform": _reference(PlatformConfig), "jobs": _reference(JobsSection)},
        "$defs": dict(sorted(defined.items())),
    }


def _describe_sections(defined: Schema) -> None:
    """Say what the outer models leave to the backends."""
    section = defined[JobsSection.__name__]["properties"]
    section["executors"]["items"] = _reference(ProfileEntry)
    section["executor_defaults"] |= {
        "properties": {name: _reference(entry.config_class) for name, entry in BACKENDS.items()},
        "additionalProperties": False,
    }
    entry = defined[ProfileEntry.__name__]
    entry["properties"]["backend"] |= {"enum": [*BACKENDS, *LEFT_OUT, None]}
    entry["properties"]["config"] = {"description": entry["properties"]["config"]["description"]}
    entry["allOf"] = [_rule(backend) for backend in BACKENDS.values()]


def _rule(backend: BackendEntry) -> Schema:
    """What an entry of a backend must be."""
    config: Schema = _reference(backend.config_class)
    rule: Schema = {"properties": {"provider": {"enum": [*backend.providers, None]}}}
    if backend.config_class.config_required:
        rule |= {"required": ["config"]}
    else:
        config = {"anyOf": [config, {"type": "null"}]}
    rule["properties"]["config"] = config
    if backend.name == DEFAULT_BACKEND:
        # Also true of an entry without the key.
        return {"if": {"properties": {"backend": {"enum": [backend.name, None]}}}, "then": rule}
    return {"if": {"properties": {"backend": {"const": backend.name}}, "required": ["backend"]}, "then": rule}


def _reference(model: type[BaseModel]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}


def _mark_without_effect(model: type[BaseModel], schema: Schema) -> None:
    """Editors strike out what is deprecated."""
    if issubclass(model, BackendConfig | JobsSection):
        for key in model.without_effect & model.model_fields.keys():
            schema["properties"][key]["deprecated"] = True


def _without_titles(schema: Any) -> Any:
    """Pydantic repeats each key as a title, which says nothing. A key that is called `title` has a mapping."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    print(json.dumps(file_schema(), indent=2))
