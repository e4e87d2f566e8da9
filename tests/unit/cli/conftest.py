"""The command line run against a real local server, with nothing of the caller's own settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.cli.app import run
from nemo_airflow_provider.cli.session import Session
from tests.unit.cli.fake_server import FakeServer


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    code: int
    out: str
    err: str


Nemo = Callable[..., Result]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("NHX_") or name in ("AIRFLOW_CLI_TOKEN", "NO_COLOR", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as running:
        yield running


@pytest.fixture
def nemo(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> Nemo:
    """Run `nemo` against `server`; waiting costs no time."""

    def call(
        *arguments: str,
        base_url: str | None = server.url,
        sleep: Callable[[float], None] = lambda seconds: None,
    ) -> Result:
        capsys.readouterr()
        prefix = ("--base-url", base_url) if base_url else ()
        code = run([*prefix, *arguments], Session(sleep=sleep))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


class TerminalStream:
    """A stream that says it is a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch, nemo: Nemo) -> Nemo:
    """As `nemo`, with a person in front of stdout and stderr."""
    import sys

    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, **options: Any) -> Result:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", TerminalStream(sys.stdout))
            patch.setattr(sys, "stderr", TerminalStream(sys.stderr))
            return nemo(*arguments, **options)

    return call
