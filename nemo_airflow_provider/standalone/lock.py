"""At most one local Airflow per home, and where it is: two schedulers would share one SQLite file."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nemo_airflow_provider import processes

#: Time for a holder to write down where it is, after it has taken the lock.
_INTRODUCTION_SECONDS = 5.0


class HomeInUse(Exception):
    """Another launcher holds the home.

    :param url: where its Airflow is, or will be when it has started
    :param pid: the launcher
    :param kind: `serve`, whose Airflow others may use, or `run`, which takes it along when its job is over
    """

    def __init__(self, url: str, pid: int, kind: str) -> None:
        super().__init__(f"Airflow already runs at {url} (process {pid})")
        self.url = url
        self.pid = pid
        self.kind = kind

    def is_alive(self) -> bool:
        """Whether the launcher runs."""
        if not self.pid:
            return False
        if Path("/proc").is_dir():
            return processes.look(self.pid) is not None  # a signal would also reach one that has ended
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def hold(home: Path, url: str, kind: str) -> Iterator[None]:
    """Hold the home until the end of the block; the lock also ends with this process, however it ends.

    :param kind: what it is held for, see `HomeInUse`
    :raises HomeInUse: somebody else holds it
    """
    with (home / "standalone.lock").open("a+") as file:
        _take(file)
        file.truncate(0)
        file.write(json.dumps({"url": url, "pid": os.getpid(), "kind": kind}))
        file.flush()
        yield
        file.truncate(0)


def _take(file: TextIO) -> None:
    """Lock the file.

    :raises HomeInUse: somebody else has it
    """
    deadline = time.monotonic() + _INTRODUCTION_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            file.seek(0)
            holder = _holder(file.read())
        # A holder that is only just starting has not written yet, or stands behind what a killed one has left.
        if holder.is_alive() or time.monotonic() > deadline:
            raise holder
        time.sleep(0.05)


def _holder(text: str) -> HomeInUse:
    said = json.loads(text or "{}")
    url = str(said.get("url", "an unknown address"))
    return HomeInUse(url, int(said.get("pid", 0)), str(said.get("kind", "run")))
