"""One program of a running Airflow. Knows nothing of Airflow."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nemo_airflow_provider import processes


class Component:
    """One long-lived program in a session of its own, its output in a file.

    The session is how its descendants are recognised after it is gone: Airflow's task processes leave its
    process group, and its process titles overwrite what `/proc` would say about their environment.

    :param name: for people
    :param command: program and arguments
    :param environment: complete environment of the process
    :param log: file its output is appended to
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.command = list(command)
        self.environment = dict(environment)
        self.log = log
        self.sessions: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._shown = 0

    def start(self) -> None:
        """Start it, or start it again after its end. On Linux it also ends when the *calling thread* does."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.sessions.add(self._process.pid)

    @property
    def pid(self) -> int | None:
        """Process id of the last start; None before the first."""
        return self._process.pid if self._process else None

    def exit_code(self) -> int | None:
        """Exit code of the last start, negative for a signal; None while it runs or was never started."""
        return self._process.poll() if self._process else None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, signum: int) -> None:
        """Signal the process alone; nothing happens when it has ended."""
        if self._process is not None:
            self._process.send_signal(signum)

    def send_to_all(self, signum: int) -> None:
        """Signal the process and every descendant that stayed in one of its sessions."""
        if self._process is not None and not Path("/proc").is_dir():
            processes.send(-self._process.pid, signum)  # its process group is all that can be known here
        for pid in self.members():
            processes.send(pid, signum)

    def members(self) -> list[int]:
        """The living processes of its sessions, its own included; empty where there is no `/proc`."""
        return [pid for pid, process in processes.living().items() if process.session in self.sessions]

    def remains(self) -> list[int]:
        """The living processes of starts that are over; sessions without any are forgotten.

        As long as a process lives in a session, its number is not given to another; afterwards it may be.
        """
        over = self.sessions - ({self._process.pid} if self._process and self.is_running() else set())
        if not over:
            return []
        left = {pid: process.session for pid, process in processes.living().items() if process.session in over}
        self.sessions -= over - set(left.values())
        return list(left)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it ended in time."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def ending(self) -> str:
        """How the last start ended, as the end of a sentence; empty while there is no end."""
        code = self.exit_code()
        if code is None:
            return ""
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def account(self) -> str:
        """Where its log is and how it ends."""
        text = self.tail()
        return f"Its log is {self.log}" + (f" and ends with:\n{text}" if text else ".")

    def tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        try:
            with self.log.open("rb") as output:
                output.seek(max(0, output.seek(0, os.SEEK_END) - 65536))
                text = output.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def new_output(self) -> list[str]:
        """Whole lines written since the last call."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as output:
            output.seek(self._shown)
            data = output.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._shown += len(whole)
        return whole.decode(errors="replace").splitlines()


def _end_with_parent() -> None:
    # SIGTERM rather than SIGKILL: the scheduler then ends its idle workers, which would else wait for ever.
    processes.end_with_parent(signal.SIGTERM)
