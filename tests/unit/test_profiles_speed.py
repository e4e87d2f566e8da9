"""A configuration file is read by every step and asked for by every request: what keeps that cheap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_airflow_provider import profiles
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles.configuration import Configuration, read_configuration
from nemo_airflow_provider.profiles.source import Place

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.yaml"))


def places(configuration: Configuration) -> list[str]:
    return [str(entry.place.child(*key)) for entry in configuration.entries for key in ((), ("config",), ("profile",))]


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_libyaml_reads_what_pyyaml_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> tuple[object, list[str]]:
        found = read_configuration("jobs.yaml", path.read_text(), {})
        shown = [(entry.provider, entry.profile, entry.config.model_dump()) for entry in found.entries]
        return (found.platform, found.defaults, shown), places(found)

    quick = read()
    assert quick[1]
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert read() == quick


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here")
def test_a_file_without_faults_is_read_by_libyaml_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "SafeLoader")
    assert read_configuration("jobs.yaml", "platform: {runtime: none}", {}).platform.runtime == "none"


def test_what_libyaml_refuses_is_told_by_pyyaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"jobs\.yaml:2: .*found character '\\t' that cannot start any token"):
        read_configuration("jobs.yaml", "jobs:\n\texecutors: []\n", {})


def test_a_mapping_is_gone_through_once_for_all_faults_in_it() -> None:
    class Pairs(list[Any]):
        looks = 0

        def __iter__(self) -> Iterator[Any]:
            self.looks += 1
            return super().__iter__()

        def __reversed__(self) -> Iterator[Any]:
            self.looks += 1
            return super().__reversed__()

    root = yaml.compose("".join(f"a{number}: 1\n" for number in range(100)))
    root.value = Pairs(root.value)
    assert [Place("f", root, (f"a{number}",)).line for number in range(100)] == list(range(1, 101))
    assert root.value.looks == 1


def test_a_place_behind_a_merge_key_is_found_also_after_another_was_asked_for() -> None:
    root = yaml.compose("a: &a {b: 1}\nc:\n  <<: *a\n  d: 2\n")
    place = Place("f", root, ("c",))
    assert (place.child("d").line, place.child("b").line) == (4, 2)
    yaml.constructor.SafeConstructor().construct_document(root)
    assert (place.child("d").line, place.child("b").line) == (4, 1)


def test_a_broken_file_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counting(source: str, *rest: Any) -> Configuration:
        read.append(source)
        return read_configuration(source, *rest)

    monkeypatch.setattr(profiles, "read_configuration", counting)
    path = tmp_path / "jobs.yaml"
    for times, text in enumerate(("jobs: [", "jobs: {a: 1}"), start=1):
        path.write_text(text)
        for _ in range(2):
            with pytest.raises(ConfigError, match=f"{path}:1: "):
                profiles.load_profiles(path, environ={}, probe=None)
        assert len(read) == times
    path.write_text("jobs: {}")
    assert profiles.load_profiles(path, environ={}, probe=None).profiles
