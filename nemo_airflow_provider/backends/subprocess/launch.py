"""Starting a supervisor, and saying in a sentence why a command could not be started."""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nemo_airflow_provider
from nemo_airflow_provider.backends.subprocess import supervisor
from nemo_airflow_provider.backends.subprocess.layout import Place
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError

_REPORT_SECONDS = 60.0
_NO_ROOM = {
    errno.EAGAIN,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOSPC,
    errno.EDQUOT,
}
_REASONS = {
    errno.ENOENT: "executable not found",
    errno.ENOTDIR: "executable not found",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "permission denied",
    errno.ENOEXEC: "not in an executable format",
    errno.E2BIG: "arguments and environment are too long",
    errno.ELOOP: "too many symbolic links",
    errno.ETXTBSY: "executable is being written",
    errno.EINVAL: "arguments or environment hold what the system cannot pass on",
}
#: A private interpreter may need it to find its own libraries.
_SUPERVISOR_ENVIRONMENT = ("LD_LIBRARY_PATH",)


def launch(directory: int, request: Mapping[str, Any], name: str, wanted: str, work: Path) -> None:
    """Start a supervisor for the locked work directory; returns when the command runs.

    The supervisor shares the lock, so that it holds until the start is settled even if this process is killed.

    :param request: see `supervisor.main`
    :param name: shown in process lists
    :param wanted: the command's first word, as it was written
    :raises StartError: the command cannot be started as written
    :raises CapacityError: the host has no room for it now
    :raises BackendError: the supervisor itself does not work
    """
    with subprocess.Popen(
        _supervisor_command(directory, name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(directory,),  # and no other: sockets and locks of the worker stay with the worker
        cwd="/",
        env={name: os.environ[name] for name in _SUPERVISOR_ENVIRONMENT if name in os.environ},
        start_new_session=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        except BrokenPipeError:
            pass  # its last words say why
        text = _read_report(process.stdout.fileno())
    _judge(text, wanted, work)


def _supervisor_command(directory: int, name: str) -> list[str]:
    """The interpreter starts without its packages; only ours, from where it is installed, can be imported."""
    root = str(Path(nemo_airflow_provider.__file__).parents[1])
    module = supervisor.__name__
    code = f"import sys; sys.path.append(sys.argv[2]); from {module} import main; main(int(sys.argv[1]))"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", code, str(directory), root, name]


def _read_report(file: int) -> bytes:
    deadline = time.monotonic() + _REPORT_SECONDS
    text = b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([file], [], [], left)[0]:
            block = os.read(file, 1 << 16)
            text += block
            if not block or _message(text) is not None:
                break
    return text


def _message(text: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(text)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _judge(text: bytes, wanted: str, work: Path) -> None:
    message = _message(text)
    if message is None:
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        raise BackendError(
            f"The supervisor of a subprocess step ended, or fell silent, before the command was started: "
            f"{last or 'it said nothing'}. See whether {sys.executable} works on this host."
        )
    if "errno" not in message:
        return
    number, detail = message["errno"], message["text"]
    if number in _NO_ROOM:
        raise CapacityError(f"This host has no room to start a subprocess now: {detail}")
    if message.get("own"):
        raise BackendError(f"The supervisor of a subprocess step cannot work in {work}: {detail}")
    raise start_error(number, detail, wanted, work)


def start_error(number: int, text: str, wanted: str, work: Path) -> StartError:
    """The refusal of a command, in the words of the contract (job specification contract §6.1).

    :param text: the system's own words
    :param wanted: the command's first word
    """
    reason = _REASONS.get(number, text.lower())
    if number == errno.ENOENT and "/" in wanted and os.path.exists(work / wanted):
        reason = "the interpreter that its first line names was not found"
    return StartError(f"Failed to start subprocess: {reason}: {wanted}", detail=f"[Errno {number}] {text}: {wanted!r}")


def refused(error: OSError, work: Path) -> BackendError:
    """What a failure with our own files means to the step."""
    if error.errno in _NO_ROOM:
        return CapacityError(f"This host has no room for {work} now: {error}")
    return BackendError(f"The subprocess backend cannot use {work}: {error}")


def not_found(wanted: str, work: Path) -> StartError:
    """No program of that name."""
    return start_error(errno.ENOENT, os.strerror(errno.ENOENT), wanted, work)


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Turn the system's errors about our own files into ours."""
    try:
        yield
    except OSError as error:
        raise refused(error, place.work) from error
