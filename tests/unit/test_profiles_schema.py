"""The JSON schema for editors agrees with what the loader says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles import load_profiles
from nemo_airflow_provider.profiles.schema import file_schema

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "reference" / "jobs.schema.json"
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def places(text: str) -> list[str]:
    """Where the schema has something against a file."""
    return sorted({place for error in VALIDATOR.iter_errors(yaml.safe_load(text)) for place in deepest(error)})


def deepest(error: Any) -> list[str]:
    """Places of an error; of alternatives those inside them."""
    if error.context:
        return [place for inner in error.context for place in deepest(inner)]
    return [error.json_path.removeprefix("$.")]


def test_it_is_not_stale() -> None:
    assert json.loads(SCHEMA.read_text()) == file_schema(), (
        "write it anew: python -m nemo_airflow_provider.profiles.schema > docs/reference/jobs.schema.json"
    )


def test_it_is_a_schema() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_and_name_it(path: Path) -> None:
    text = path.read_text()
    assert places(text) == []
    first = text.splitlines()[0]
    assert (path.parent / first.removeprefix("# yaml-language-server: $schema=")).resolve() == SCHEMA


ENTRY = "jobs: {executors: [%s]}"
CONFIG = ENTRY % "{backend: %s, config: {%s}}"


@pytest.mark.parametrize(
    "text",
    [
        "files: anything\nauth: []",
        "platform: {runtime: none, something_of_upstream: {a: 1}, base_url: x}",
        'platform: {docker: {reserved_gpu_device_ids: "0, 1"}}',
        "platform: {docker: {reserved_gpu_device_ids: }}",
        "jobs: {enable_subprocess_executor: , executor_defaults: {docker: {num_gpus: 2}}}",
        ENTRY % "{profile: a, config: {num_gpus: 2}}",
        ENTRY % "{backend: , config: {num_gpus: 2}}",
        ENTRY % "{backend: subprocess}",
        ENTRY % "{backend: subprocess, config: }",
        ENTRY % "{backend: e2e}, {backend: openshell, provider: cpu, config: {x: 1}}",
        CONFIG % ("kubernetes_job", "launcher_image: x, tolerations: [{key: a}], env: {NEMO_MINE: x}"),
        CONFIG % ("volcano_job", "plugins: {ssh: []}, storage: {additional_volumes: [{name: a, empty_dir: {}}]}"),
    ],
)
def test_what_the_loader_takes_it_takes(text: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    load_profiles(path, environ={}, probe=None)
    assert places(text) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("platform: {runtime: bogus}", "platform.runtime"),
        ("platform: {docker: {reserved_gpu_device_ids: [0]}}", "platform.docker.reserved_gpu_device_ids"),
        ("platform: {docker: {reserved_gpu_device_ids: '0;1'}}", "platform.docker.reserved_gpu_device_ids"),
        ("jobs: []", "jobs"),
        ("jobs: {executers: []}", "jobs"),
        ("jobs: {executor_defaults: {dockr: {}}}", "jobs.executor_defaults"),
        (
            "jobs: {executor_defaults: {docker: {storage: {volume: a}}}}",
            "jobs.executor_defaults.docker.storage",
        ),
        (ENTRY % "{profil: a, config: {}}", "jobs.executors[0]"),
        (ENTRY % "{backend: kubernetes, config: {}}", "jobs.executors[0].backend"),
        (ENTRY % "{backend: docker}", "jobs.executors[0]"),
        (ENTRY % "{provider: cpu}", "jobs.executors[0]"),
        (ENTRY % "{backend: volcano_job, config: }", "jobs.executors[0].config"),
        (ENTRY % "{provider: cpu, backend: volcano_job, config: {}}", "jobs.executors[0].provider"),
        (ENTRY % "{config: {num_gpuss: 1}}", "jobs.executors[0].config"),
        (CONFIG % ("docker", "num_gpus: many"), "jobs.executors[0].config.num_gpus"),
        (CONFIG % ("docker", "ttl_seconds_active: -1"), "jobs.executors[0].config.ttl_seconds_active"),
        (CONFIG % ("docker", "env: {A: 1}"), "jobs.executors[0].config.env.A"),
        (CONFIG % ("docker", "env: {NEMO_JOB_ID: x}"), "jobs.executors[0].config.env"),
        (CONFIG % ("docker", "env: {NHX_WORKLOAD_X: x}"), "jobs.executors[0].config.env"),
        (CONFIG % ("kubernetes_job", "pause: freeze"), "jobs.executors[0].config.pause"),
        (CONFIG % ("kubernetes_job", "queue: x"), "jobs.executors[0].config"),
        (CONFIG % ("subprocess", "working_directory: here"), "jobs.executors[0].config.working_directory"),
    ],
)
def test_what_the_loader_refuses_it_refuses(text: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load_profiles(path, environ={}, probe=None)
    assert place in places(text)


def test_every_key_of_every_backend_is_in_it() -> None:
    defined = file_schema()["$defs"]
    for entry in BACKENDS.values():
        keys = defined[entry.config_class.__name__]["properties"]
        assert keys.keys() == entry.config_class.model_fields.keys()
        assert {key for key, value in keys.items() if value.get("deprecated")} == (
            entry.config_class.without_effect & keys.keys()
        )
