"""Starting the command of a workload inside its supervisor, and hearing of its end. Standard library only."""

from __future__ import annotations

import errno
import json
import os
import signal
from contextlib import suppress

from nemo_airflow_provider import processes

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the supervisor's start-up time
    from collections.abc import Callable
    from typing import NoReturn


class StartFailed(Exception):
    """The system refuses to run the command; `number` is its errno."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class Child:
    """A running command, leader of its own session and group, and the reading ends of its output."""

    __slots__ = ("pid", "stderr", "stdout")

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr


def catch_signals() -> int:
    """A descriptor that delivers the numbers of the signals that come, among them SIGCHLD."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def start(argv: list[str], env: dict[str, str], directory: int, note: Callable[[Child], None]) -> Child:
    """Start a command with an open directory as its working directory.

    The child waits until `note` has been called with it: what is noted is there before the first instruction of the
    command, and when noting fails there is none.

    :raises StartFailed: the system refuses to run it; it has been noted by then
    :raises OSError: pipes or processes cannot be made, or whatever `note` raises
    """
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "go", "failure")}
    pid = os.fork()
    if pid == 0:
        _become(argv, env, directory, pipes)
    for name in ("stdout", "stderr", "failure"):
        os.close(pipes[name][1])
    os.close(pipes["go"][0])
    child = Child(pid, pipes["stdout"][0], pipes["stderr"][0])
    note(child)
    with suppress(BrokenPipeError):  # somebody killed it: its end is reported like any other
        os.write(pipes["go"][1], b"!")
    os.close(pipes["go"][1])
    failure = os.read(pipes["failure"][0], 1 << 12)
    os.close(pipes["failure"][0])
    if failure:
        os.waitpid(pid, 0)
        raise StartFailed(*json.loads(failure))
    return child


def _become(argv: list[str], env: dict[str, str], directory: int, pipes: dict[str, tuple[int, int]]) -> NoReturn:
    """In the child: turn into the command once the word is given. All other descriptors close by themselves."""
    try:
        os.setsid()
        processes.end_with_parent(signal.SIGKILL)
        os.close(pipes["go"][1])
        if not os.read(pipes["go"][0], 1):
            os._exit(127)  # the supervisor died first
        os.dup2(pipes["stdout"][1], 1)
        os.dup2(pipes["stderr"][1], 2)
        signal.set_wakeup_fd(-1)
        for catchable in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(catchable, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.fchdir(directory)
        os.execve(argv[0], argv, env)
    except OSError as error:
        number = error.errno or errno.EIO
        _fail(pipes, number, os.strerror(number))
    except BaseException as error:
        _fail(pipes, errno.EINVAL, str(error)[:200])
    os._exit(127)


def _fail(pipes: dict[str, tuple[int, int]], number: int, text: str) -> None:
    os.write(pipes["failure"][1], json.dumps([number, text]).encode())
