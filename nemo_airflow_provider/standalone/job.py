"""One job through the command line, as a person would run it: create it, show its status and log until it ends."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_TOKENS = ("NHX_ACCESS_TOKEN", "AIRFLOW_CLI_TOKEN")
_LONGEST_STEM = 40
_NEMO = (sys.executable, "-m", "nemo_airflow_provider.cli.main")


def run(job: Path, url: str, environ: Mapping[str, str], wait: Callable[[int], None]) -> bool:
    """Whether the job completed. It gets a fresh name, whatever its file says, so that it can run again.

    Two commands rather than `create --watch`, which prints the whole job first: here the log is what matters.

    :param environ: of the commands, see `command_environment`
    :param wait: called again and again meanwhile with the process id of a child that must be left to us
    """
    name = fresh_name(job.stem)
    server = ["--base-url", url]
    if not _create(job, name, environ, *server):
        return False
    print(f"Job {name}:", file=sys.stderr, flush=True)
    command = [*_NEMO, *server, "jobs", "watch", name, "--workspace", "default"]
    watch = subprocess.Popen(command, env=dict(environ), stdin=subprocess.DEVNULL)
    try:
        while watch.poll() is None:
            wait(watch.pid)
    finally:
        watch.terminate()
        watch.wait()
    return watch.returncode == 0


def is_valid(job: Path) -> bool:
    """Whether the file holds a job, as far as that can be told without a server; what is wrong goes to stderr."""
    # As Python nothing is sent, but everything is checked that `create` checks before it sends a job.
    return _create(job, fresh_name(job.stem), command_environment(os.environ, keep_tokens=False), "-f", "code")


def _create(job: Path, name: str, environ: Mapping[str, str], *global_options: str) -> bool:
    command = [*_NEMO, *global_options, "jobs", "create", name, "--workspace", "default", "--input-file", str(job)]
    return subprocess.run(command, env=dict(environ), stdout=subprocess.DEVNULL, check=False).returncode == 0


def fresh_name(stem: str) -> str:
    """A legal job name that nothing has yet and that reminds of a file's."""
    words = re.findall("[a-z0-9]+", stem.lower())
    if not words or not words[0][0].isalpha():
        words.insert(0, "job")
    return f"{'-'.join(words)[:_LONGEST_STEM].rstrip('-')}-{secrets.token_hex(4)}"


def command_environment(environ: Mapping[str, str], *, keep_tokens: bool) -> dict[str, str]:
    """`environ` for `nemo` without the caller's settings of it: those are about another server than this one.

    :param keep_tokens: whether the server is one that was there already, and may want one
    """
    kept = {
        name: value
        for name, value in environ.items()
        if (name in _TOKENS and keep_tokens) or not (name in _TOKENS or name.startswith("NHX_"))
    }
    return kept | {"NHX_CONFIG_FILE": os.devnull}
