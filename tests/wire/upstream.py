"""The unmodified upstream client, as a command and as a library, from this Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

WORKER = Path(__file__).with_name("upstream_worker.py")


def _environment(home: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NHX_", "NEMO_"))}
    return clean | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "NEMO_TELEMETRY_ENABLED": "false",
        "NO_COLOR": "1",
        "COLUMNS": "240",
        "TZ": "UTC",
    }


@dataclass(frozen=True)
class Told:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output, which must be JSON."""
        assert self.code == 0, self
        return json.loads(self.out)


class Running:
    """A command that has been started."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def told(self, timeout_seconds: float = 90) -> Told:
        """Wait for its end."""
        try:
            out, err = self._process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
            raise AssertionError(f"the command does not end: {out}\n{err}") from None
        return Told(self._process.returncode, out, err)


class Command:
    """Upstream's `nemo jobs`.

    :param executable: path of `nemo`
    :param url: base URL of the server
    :param home: an empty directory for its configuration
    """

    def __init__(self, executable: str, url: str, home: Path) -> None:
        self._executable = executable
        self._environment = _environment(home) | {"NHX_BASE_URL": url}

    def start(self, *arguments: str, **environment: str) -> Running:
        """Begin `nemo jobs <arguments>`."""
        return Running([self._executable, "jobs", *arguments], self._environment | environment)

    def __call__(self, *arguments: str, **environment: str) -> Told:
        return self.start(*arguments, **environment).told()


class ClientError(Exception):
    """What upstream's client raised.

    :param kind: its class
    :param status: HTTP status, if there was one
    """

    def __init__(self, kind: str, status: int | None, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.status = status
        self.text = text


class Client:
    """Upstream's `JobsClient` in a process of its own Python; a context manager.

    :param executable: path of `nemo`; the Python beside it is used
    :param token: Bearer token; empty: no `Authorization` header at all
    """

    def __init__(self, executable: str, url: str, home: Path, token: str = "") -> None:
        self._process = subprocess.Popen(
            [str(Path(executable).with_name("python")), str(WORKER), url, token],
            env=_environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __call__(self, method: str, **arguments: Any) -> Any:
        """Call a method of the client; paginated answers come as the list of all items.

        :raises ClientError: the client raised
        """
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "upstream's client ended; its standard error says why"
        told = json.loads(line)
        if "error" in told:
            raise ClientError(told["error"], told["status"], told["text"])
        return told["answer"]


def unwrapped(text: str) -> str:
    """Text that a terminal library has folded, on one line."""
    return re.sub(r"\s+", " ", text)
