"""Shells that complete the words of `nemo`: what they ask the process, and what they make of its answer."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.waiting import wait_until

NEMO = [sys.executable, "-m", "nemo_airflow_provider.cli.main"]
_SECONDS = 60
#: So that a busy machine changes no answer.
PATIENT = {"NEMO_COMPLETION_SECONDS": str(_SECONDS)}
_PROMPT = b"ready> "


def asked(shell: str, line: str) -> dict[str, str]:
    """The environment with which a shell asks for what could follow at the end of the line.

    :param line: begins with `nemo `; words are parted by single blanks, and bash's breaks are made as bash makes them
    """
    if shell != "bash":
        action = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}
        return {"_NEMO_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **action}
    words = line.split(" ")
    for mark in ":=@":
        words = [piece for word in words for piece in _broken(word, mark)]
    return {"_NEMO_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}


def _broken(word: str, mark: str) -> list[str]:
    pieces = word.replace(mark, f"\n{mark}\n").split("\n")
    return [piece for piece in pieces if piece] or [word]


def answer(shell: str, line: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """How the process answers, with all the time that it needs unless `environ` says otherwise."""
    return subprocess.run(
        NEMO,
        env={**os.environ, **PATIENT, **(environ or {}), **asked(shell, line)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def offers(said: str) -> dict[str, str]:
    """Values and what is said about them, out of an answer to fish."""
    parts = (row.partition("\t") for row in said.splitlines() if row)
    return {value: text for value, _, text in parts}


def put_on_path(folder: Path) -> dict[str, str]:
    """Make `nemo` a command of that folder; the environment in which it is found."""
    command = folder / "nemo"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(NEMO)} "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


class Bash:
    """A bash at a terminal, at which somebody presses keys.

    :param script: what it reads when it starts
    """

    def __init__(self, script: Path, environ: Mapping[str, str]) -> None:
        self._shown = b""
        self._controller, terminal = pty.openpty()
        variables = {**os.environ, **PATIENT, **environ, "TERM": "dumb"}
        start = script.with_name("start.sh")
        start.write_text(f"source {shlex.quote(str(script))}\nPS1={shlex.quote(_PROMPT.decode())}\n")
        command = ["bash", "--noprofile", "--rcfile", str(start), "-i"]
        self._process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=variables, start_new_session=True
        )
        os.close(terminal)
        os.set_blocking(self._controller, False)

    def __enter__(self) -> Bash:
        try:
            self._wait_for(_PROMPT)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._controller)

    def completed(self, line: str, end: str) -> str:
        """Type the line and TAB until it ends like this; the whole line."""
        self._shown = b""
        os.write(self._controller, line.encode() + b"\t")
        self._wait_for(end.encode())
        typed = self._shown.decode()
        # Take the line back. A prompt alone may be the one that bash draws again for that.
        os.write(self._controller, b"\x15echo do''ne\n")
        self._wait_for(b"done\r\n" + _PROMPT)
        return typed

    def _wait_for(self, end: bytes) -> None:
        def look() -> bool:
            try:
                self._shown += os.read(self._controller, 4096)
            except BlockingIOError:
                return False
            return self._shown.endswith(end)

        wait_until(look, _SECONDS, f"bash to show {end!r}", pause_seconds=0.05)
