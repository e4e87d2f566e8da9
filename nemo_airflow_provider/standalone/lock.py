"""At most one local Airflow per home, and where it is: two schedulers would share one SQLite file."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HomeInUse(Exception):
    """Another launcher holds the home.

    :param url: where its Airflow is
    :param pid: the launcher
    """

    def __init__(self, url: str, pid: int) -> None:
        super().__init__(f"Airflow already runs at {url} (process {pid})")
        self.url = url
        self.pid = pid


@contextmanager
def hold(home: Path, url: str) -> Iterator[None]:
    """Hold the home until the end of the block; the lock also ends with this process, however it ends.

    :raises HomeInUse: somebody else holds it
    """
    with (home / "standalone.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = json.loads(file.read() or "{}")
            raise HomeInUse(str(holder.get("url", "an unknown address")), int(holder.get("pid", 0))) from None
        file.truncate(0)
        file.write(json.dumps({"url": url, "pid": os.getpid()}))
        file.flush()
        yield
        file.truncate(0)
