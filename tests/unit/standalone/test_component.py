from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_airflow_provider.standalone.component import Component
from tests.waiting import wait_until


@pytest.fixture
def started() -> Iterator[list[Component]]:
    components: list[Component] = []
    yield components
    for component in components:
        component.send_to_all(signal.SIGKILL)
        component.wait(5)


def shell(folder: Path, script: str, started: list[Component]) -> Component:
    component = Component("script", ["sh", "-c", script], os.environ, folder / "log" / "script.log")
    component.start()
    started.append(component)
    return component


def test_output_exit_code_and_tail(tmp_path: Path, started: list[Component]) -> None:
    component = shell(tmp_path, "seq 1 30; exit 3", started)
    assert component.wait(10)
    assert component.exit_code() == 3
    assert component.tail(2) == "29\n30"


def test_new_output_is_whole_lines_each_once(tmp_path: Path) -> None:
    component = Component("script", ["true"], {}, tmp_path / "script.log")
    assert component.new_output() == []
    with component.log.open("w") as log:
        for text, lines in (("one\ntw", ["one"]), ("o\n", ["two"]), ("", [])):
            log.write(text)
            log.flush()
            assert component.new_output() == lines


def test_a_second_start_appends_and_remembers_the_first_session(tmp_path: Path, started: list[Component]) -> None:
    component = shell(tmp_path, "echo up", started)
    component.wait(10)
    component.start()
    component.wait(10)
    assert component.tail() == "up\nup"
    assert len(component.sessions) == 2


def test_members_outlive_the_process_and_are_signalled_with_it(tmp_path: Path, started: list[Component]) -> None:
    # The child leaves the process group, as Airflow's tasks do, but not the session.
    script = "import os,time\nif os.fork() == 0:\n    os.setpgid(0, 0)\n    print('up', flush=True)\n    time.sleep(60)"
    component = Component("fork", [sys.executable, "-c", script], os.environ, tmp_path / "fork.log")
    component.start()
    started.append(component)
    wait_until(lambda: component.tail() == "up")
    component.wait(10)
    assert not component.is_running()
    assert len(component.members()) == 1
    component.send_to_all(signal.SIGTERM)
    wait_until(lambda: not component.members())


def test_a_component_that_never_started_can_be_asked_and_signalled(tmp_path: Path) -> None:
    component = Component("nothing", ["true"], {}, tmp_path / "nothing.log")
    component.send(signal.SIGTERM)
    component.send_to_all(signal.SIGTERM)
    assert component.exit_code() is None
    assert not component.is_running()
    assert component.wait(0)
    assert component.tail() == ""
