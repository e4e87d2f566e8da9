"""The commands as Airflow's command line finds them."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
from airflow.cli.cli_parser import get_parser

from nemo_airflow_provider.airflow_cli import definition
from nemo_airflow_provider.provider_info import get_provider_info


def test_airflow_finds_them() -> None:
    path = f"{definition.__name__}.{definition.get_provider_cli_commands.__name__}"
    assert get_provider_info()["cli"] == [path]
    assert isinstance(parse("check"), argparse.Namespace)


def parse(*words: str) -> argparse.Namespace:
    parsed = get_parser().parse_args(["nemo", *words])
    assert isinstance(parsed, argparse.Namespace)
    return parsed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check"], {"output": "table", "strict": False, "verbose": False}),
        (["check", "-o", "json", "--strict", "-v"], {"output": "json", "strict": True, "verbose": True}),
    ],
)
def test_options(words: list[str], expected: dict[str, object]) -> None:
    parsed = vars(parse(*words))
    assert {name: parsed[name] for name in expected} == expected


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("check", "-o", "xml")
    assert ended.value.code == 2


def test_the_definition_imports_nothing_of_ours() -> None:
    code = (
        "import sys; import nemo_airflow_provider.airflow_cli.definition\n"
        "print(*(name for name in sys.modules if name.startswith('nemo_airflow_provider.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.partition(".")[2] for name in done.stdout.splitlines()[-1].split()} <= {
        "provider_info",
        "airflow_cli",
        "airflow_cli.definition",
    }
