from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from nemo_airflow_provider.standalone import lock


def test_a_home_is_held_once_and_says_where(tmp_path: Path) -> None:
    with (
        lock.hold(tmp_path, "http://127.0.0.1:1", "serve"),
        pytest.raises(lock.HomeInUse) as refused,
        lock.hold(tmp_path, "http://127.0.0.1:2", "serve"),
    ):
        raise AssertionError("held twice")
    assert (refused.value.url, refused.value.pid, refused.value.kind) == ("http://127.0.0.1:1", os.getpid(), "serve")


def test_it_is_free_again_afterwards(tmp_path: Path) -> None:
    with lock.hold(tmp_path, "http://127.0.0.1:1", "serve"):
        pass
    with lock.hold(tmp_path, "http://127.0.0.1:2", "serve"):
        pass


def test_a_holder_that_has_only_just_started_is_asked_again(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    path = tmp_path / "standalone.lock"
    path.write_text(json.dumps({"url": "http://of.a.killed.one", "pid": ended.pid}))
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        present = json.dumps({"url": "http://127.0.0.1:3", "pid": os.getpid(), "kind": "run"})
        writes = threading.Timer(0.2, path.write_text, [present])
        writes.start()
        with pytest.raises(lock.HomeInUse) as refused, lock.hold(tmp_path, "http://127.0.0.1:2", "serve"):
            raise AssertionError("held twice")
        writes.join()
    assert (refused.value.url, refused.value.kind) == ("http://127.0.0.1:3", "run")
