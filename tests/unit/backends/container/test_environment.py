from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.base import Environment
from nemo_airflow_provider.backends.container import environment
from nemo_airflow_provider.backends.container.environment import check_words, compose
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model.spec import Container

PATHS = {
    environment.CONFIG_FILE: "/var/run/scratch/config/job_step_config.json",
    environment.CONFIG_DIRECTORY: "/var/run/scratch/config",
    environment.SCRATCH: "/var/run/scratch/task",
}
LAYERS = ["profile", "system", "principal", "step", "platform", "secrets"]


def composed(
    given: Environment, profile: dict[str, str] | None = None, *, loopback: str | None = None
) -> dict[str, str]:
    return compose(profile or {}, given, PATHS, loopback=loopback)


@pytest.mark.parametrize("highest", range(len(LAYERS)))
def test_precedence(highest: int) -> None:
    layers = {layer: {"X": layer} for layer in LAYERS[: highest + 1]}
    groups = Environment(**{name: layers.get(name, {}) for name in LAYERS[1:]})
    assert composed(groups, layers.get("profile")) == {"X": LAYERS[highest], **PATHS}


def test_a_pods_step_wins_over_the_platform() -> None:
    groups = Environment({}, step={"X": "step"}, platform={"X": "platform"}, secrets={})
    assert compose({}, groups, PATHS, loopback=None, step_over_platform=True)["X"] == "step"
    assert composed(groups)["X"] == "platform"


def test_a_secret_does_not_move_the_storage_that_is_mounted() -> None:
    elsewhere = dict.fromkeys(PATHS, "/elsewhere")
    assert composed(Environment({}, secrets=elsewhere)) == PATHS


@settings(max_examples=50)
@given(st.dictionaries(st.text(st.characters(exclude_characters="=\0", codec="utf-8"), min_size=1), st.text()))
def test_values_come_through_byte_by_byte(step: dict[str, str]) -> None:
    step = {name: value.replace("\0", "") for name, value in step.items() if not name.startswith(("NHX_", "NEMO_"))}
    assert composed(Environment({}, step=step)) == {**step, **PATHS}


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")])
def test_what_an_environment_cannot_hold(name: str, value: str) -> None:
    with pytest.raises(StartError) as told:
        composed(Environment({}, step={name: value}))
    assert str(told.value).startswith(f"Environment variable {name!r} cannot be given to a container")


MOST = 128 * 1024 - 1
TOO_LONG = "is longer than 128 KiB, the kernel's limit for one. Hand it over as a file, such as the step's config."


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_what_is_too_long_for_the_kernel(letter: str) -> None:
    size = len(letter.encode())
    fits = letter * ((MOST - len("A=")) // size)
    assert composed(Environment({}, step={"A": fits}))["A"] == fits
    with pytest.raises(StartError) as told:
        composed(Environment({}, secrets={"A": fits + letter}))
    assert str(told.value) == f"Environment variable A {TOO_LONG}"


@pytest.mark.parametrize("part", ["entrypoint", "command"])
def test_words_that_no_command_can_hold(part: str) -> None:
    def told(word: str) -> str:
        with pytest.raises(StartError) as error:
            check_words(Container.model_validate({part: ["x" * MOST, word]}))
        return str(error.value)

    assert told("x" * (MOST + 1)) == f"Word 2 of the step's {part} {TOO_LONG}"
    assert told("a\0b") == f"Word 2 of the step's {part} holds a NUL character, which no command can."
    check_words(Container.model_validate({part: ["x" * MOST, ""]}))


@pytest.mark.parametrize("group", ["step", "secrets"])
@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["NHX_ACCESS_TOKEN"], ["NHX_ACCESS_TOKEN"]),
        (["NEMO_WORKLOAD_X", "A", "NHX_WORKFLOW_"], ["NEMO_WORKLOAD_X", "NHX_WORKFLOW_"]),
    ],
)
def test_names_of_the_platforms_credentials_are_refused(group: str, names: list[str], listed: list[str]) -> None:
    with pytest.raises(StartError) as told:
        composed(Environment({}, **{group: dict.fromkeys(names, "value")}))
    reserved = "Job step environment keys must not use platform-reserved managed environment keys"
    assert str(told.value) == f"{reserved}: {listed}"


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://localhost:8080/api/v2?a=b#c", "http://gate:8080/api/v2?a=b#c"),
        ("http://LocalHost:8080", "http://gate:8080"),
        ("http://127.0.0.1:8080/", "http://gate:8080/"),
        ("http://127.0.1.1/", "http://gate/"),
        ("http://0.0.0.0:1", "http://gate:1"),
        ("http://[::1]:8080/x", "http://gate:8080/x"),
        ("http://[0:0:0:0:0:0:0:1]/x", "http://gate/x"),
        ("http://[::]:80", "http://gate:80"),
        ("https://user:p%40ss@localhost:8443/x", "https://user:p%40ss@gate:8443/x"),
        ("https://a@b@127.0.0.1/x", "https://a@b@gate/x"),
        ("http://localhost", "http://gate"),
        ("http://localhost:/x", "http://gate:/x"),
        ("http://api.localhost:80/", "http://gate:80/"),
        # Not the loopback, or nothing that can be understood: as it is.
        ("http://localhost.example.org:80", "http://localhost.example.org:80"),
        ("http://10.0.0.1/localhost", "http://10.0.0.1/localhost"),
        ("http://[fe80::1]:80", "http://[fe80::1]:80"),
        ("http://localhost:port/x", "http://gate:port/x"),
        ("http://[::1", "http://[::1"),
        ("localhost:8080", "localhost:8080"),
        ("1", "1"),
        ("", ""),
    ],
)
def test_a_loopback_host_is_called_what_it_is_inside(url: str, inside: str) -> None:
    given = Environment({}, platform={"NHX_BASE_URL": url}, step={"URL": "http://localhost:1"})
    found = composed(given, loopback="gate")
    assert found["NHX_BASE_URL"] == inside
    assert found["URL"] == "http://localhost:1"
    assert composed(given)["NHX_BASE_URL"] == url


def test_a_loopback_address_may_be_one_of_version_6() -> None:
    given = Environment({}, platform={"NHX_BASE_URL": "http://localhost:8080/x"})
    assert composed(given, loopback="fd00::1")["NHX_BASE_URL"] == "http://[fd00::1]:8080/x"
