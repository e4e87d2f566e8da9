from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_airflow_provider.standalone import lock


def test_a_home_is_held_once_and_says_where(tmp_path: Path) -> None:
    with (
        lock.hold(tmp_path, "http://127.0.0.1:1"),
        pytest.raises(lock.HomeInUse) as refused,
        lock.hold(tmp_path, "http://127.0.0.1:2"),
    ):
        raise AssertionError("held twice")
    assert (refused.value.url, refused.value.pid) == ("http://127.0.0.1:1", os.getpid())


def test_it_is_free_again_afterwards(tmp_path: Path) -> None:
    with lock.hold(tmp_path, "http://127.0.0.1:1"):
        pass
    with lock.hold(tmp_path, "http://127.0.0.1:2"):
        pass
