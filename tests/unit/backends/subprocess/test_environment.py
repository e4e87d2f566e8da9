from __future__ import annotations

from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Environment
from nemo_airflow_provider.backends.subprocess import environment
from nemo_airflow_provider.backends.subprocess.environment import compose, program

PATHS = {
    environment.CONFIG_FILE: "/w/config/job_step_config.json",
    environment.CONFIG_DIRECTORY: "/w/config",
    environment.SCRATCH: "/w/scratch",
    environment.JOB_STORAGE: "/w/job-storage",
}
LAYERS = ["host", "profile", "system", "step", "platform", "principal", "secrets"]


@pytest.mark.parametrize("highest", range(len(LAYERS)))
def test_precedence(highest: int) -> None:
    given = {layer: {"PATH": layer} for layer in LAYERS[: highest + 1]}
    groups = Environment(
        given.get("system", {}),
        given.get("step", {}),
        given.get("platform", {}),
        given.get("principal", {}),
        given.get("secrets", {}),
    )
    composed = compose(given.get("host", {}), given.get("profile", {}), groups, PATHS)
    assert composed == {"PATH": LAYERS[highest], **PATHS}


def test_of_the_host_only_the_allowed_names_come_through() -> None:
    host = {name: "1" for name in ("PATH", "VIRTUAL_ENV", "NEMO_AGENTS_WHEEL", "HOME", "AIRFLOW_HOME", "LANG")}
    composed = compose(host, {}, Environment({}), PATHS)
    assert sorted(set(composed) - set(PATHS)) == ["NEMO_AGENTS_WHEEL", "PATH", "VIRTUAL_ENV"]


def test_storage_paths_cannot_be_set_and_the_config_path_can() -> None:
    step = dict.fromkeys(PATHS, "/elsewhere")
    composed = compose({}, {}, Environment({}, step=step, secrets=step), PATHS)
    assert composed[environment.SCRATCH] == "/w/scratch"
    assert composed[environment.JOB_STORAGE] == "/w/job-storage"
    assert composed[environment.CONFIG_FILE] == "/elsewhere"


@pytest.fixture
def bins(tmp_path: Path) -> Path:
    for name, mode in [
        ("venv/python", 0o755),
        ("venv/tool", 0o755),
        ("venv/notes", 0o644),
        ("a/tool", 0o755),
        ("a/notes", 0o755),
        ("a/locked", 0o644),
        ("b/locked", 0o755),
        ("c/only-locked", 0o644),
        ("work/rel/here", 0o755),
    ]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        file.chmod(mode)
    (tmp_path / "a" / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("python", "venv/python"),
        ("python3", "venv/python"),
        ("tool", "venv/tool"),
        ("notes", "a/notes"),
        ("locked", "b/locked"),
        ("only-locked", "c/only-locked"),
        ("here", "work/rel/here"),
        ("folder", None),
        ("nothing", None),
    ],
)
def test_program(bins: Path, name: str, expected: str | None) -> None:
    path = f"{bins}/a:{bins}/b:{bins}/c:rel"
    found = program(name, path, bins / "work", str(bins / "venv" / "python"))
    assert found == (None if expected is None else str(bins / expected))


@pytest.mark.parametrize("name", ["./run.sh", "bin/run", "/usr/bin/env", "../python"])
def test_paths_are_left_alone(bins: Path, name: str) -> None:
    assert program(name, "", bins, str(bins / "venv" / "python")) == name
