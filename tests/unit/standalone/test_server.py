"""Ends of components and what is done about them, with other programs in their place."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment
from nemo_airflow_provider.standalone.component import Component
from nemo_airflow_provider.standalone.pulse import HEALTH_PATH, LATE_LOOKS, LOOK_SECONDS
from nemo_airflow_provider.standalone.restarts import MOST
from nemo_airflow_provider.standalone.server import COMMANDS, DAGS_PATH, READY_PATH, AirflowServer, LaunchError
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.standalone.clock import Clock
from tests.waiting import wait_until

IDLE = "airflow worker -- LocalExecutor: <idle>"
BUSY = "airflow worker -- LocalExecutor: 01a23292-0a8e-7dd2-8de4-73e30836dd64"

#: A program with two others below it, in groups of their own as Airflow's tasks, that bear these titles.
FAMILY = """
import os, sys, time
from setproctitle import setproctitle
for title in sys.argv[1:]:
    if os.fork() == 0:
        os.setpgid(0, 0)
        setproctitle(title)
        break
time.sleep(600)
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def airflow(server: FakeServer, tmp_path: Path, clock: Clock) -> Iterator[AirflowServer]:
    """One whose API answers, and whose components only wait."""
    server.on("GET", READY_PATH, Answer([])).on("GET", DAGS_PATH.partition("?")[0], Answer({"total_entries": 1}))
    made = AirflowServer(environment.server_environment({}, tmp_path, port=1, api_workers=1), clock)
    made.url = server.url
    for name in COMMANDS:
        replace(made, name, "sleep", "600")
    yield made
    made.end_at_once()
    assert made.stop() == []


def replace(airflow: AirflowServer, name: str, *command: str) -> Component:
    component = Component(name, command, os.environ, airflow.logs / f"{name}.log")
    airflow.components[name] = component
    return component


def kill(component: Component) -> None:
    component.send(signal.SIGKILL)
    assert component.wait(10)


def start_again(airflow: AirflowServer, clock: Clock) -> None:
    """Let what has ended be seen, and its pause pass."""
    airflow.check()
    clock.now += 20
    airflow.check()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_component_that_ends_is_started_again(airflow: AirflowServer, clock: Clock, name: str) -> None:
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    before = {each.name: each.pid for each in airflow.components.values()}
    component = airflow.components[name]
    kill(component)
    told: list[str] = []
    airflow.check(told.append)
    clock.now += 0.9
    airflow.check(told.append)
    assert not component.is_running()
    clock.now += 0.1
    airflow.check(told.append)
    assert component.is_running()
    assert [each.name for each in airflow.components.values() if each.pid != before[each.name]] == [name]
    airflow.check(told.append)
    assert told == [
        f"The {name} was ended by SIGKILL and is started again in 1 s (1 of at most 5 times within 5 minutes); "
        f"its log: {component.log}"
    ]


def test_a_pause_grows_and_holds_nothing_else_up(airflow: AirflowServer, clock: Clock) -> None:
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    told: list[str] = []
    scheduler, processor = airflow.components["scheduler"], airflow.components["dag-processor"]
    for pause in (1, 2, 4):
        kill(scheduler)
        airflow.check(told.append)
        assert f"is started again in {pause} s ({len(told)} of" in told[-1]
        clock.now += pause - 0.1
        airflow.check(told.append)
        assert not scheduler.is_running()
        clock.now += 0.1
        airflow.check(told.append)
        assert scheduler.is_running()
    kill(scheduler)
    airflow.check(told.append)
    kill(processor)
    airflow.check(told.append)
    clock.now += 1
    airflow.check(told.append)
    assert processor.is_running() and not scheduler.is_running()


def use_up_restarts(airflow: AirflowServer, clock: Clock, name: str, told: list[str]) -> Component:
    """Let it end by itself up to the time that is not allowed any more."""
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    component = airflow.components[name]
    component.command = ["sh", "-c", "echo last words; exit 3"]
    kill(component)
    for _ in range(MOST):
        airflow.check(told.append)
        clock.now += 20
        airflow.check(told.append)
        assert component.wait(10)
    assert len(told) == MOST
    return component


@pytest.mark.parametrize("name", ["api-server", "dag-processor", "scheduler"])
def test_one_that_ends_too_often_is_told_with_its_log(airflow: AirflowServer, clock: Clock, name: str) -> None:
    told: list[str] = []
    component = use_up_restarts(airflow, clock, name, told)
    with pytest.raises(LaunchError) as raised:
        airflow.check(told.append)
    assert len(told) == MOST
    assert str(raised.value).startswith(
        f"Airflow's {name} ended with status 3, after it was started again 5 times within 5 minutes. "
        f"Its log is {component.log} and ends with:\nlast words"
    )


def test_a_triggerer_that_ends_too_often_is_given_up_and_the_rest_goes_on(airflow: AirflowServer, clock: Clock) -> None:
    told: list[str] = []
    use_up_restarts(airflow, clock, "triggerer", told)
    airflow.check(told.append)
    airflow.check(told.append)
    assert len(told) == MOST + 1
    assert "5 times within 5 minutes. It stays away: deferred tasks wait" in told[-1]
    kill(airflow.components["scheduler"])
    start_again(airflow, clock)
    assert [each.name for each in airflow.components.values() if not each.is_running()] == ["triggerer"]


@pytest.mark.parametrize("name", ["api-server", "dag-processor", "scheduler"])
def test_an_end_before_all_was_ready_once_is_a_fault_at_once(
    server: FakeServer, airflow: AirflowServer, name: str
) -> None:
    server.on("GET", READY_PATH, Answer({"detail": "starting"}, 503))
    component = replace(airflow, name, "sh", "-c", "echo wrong setting; exit 3")
    airflow.start(*COMMANDS)
    with pytest.raises(LaunchError) as raised:
        airflow.wait_ready()
    assert str(raised.value) == (
        f"Airflow's {name} ended with status 3. Its log is {component.log} and ends with:\nwrong setting"
    )
    assert component.log.read_text() == "wrong setting\n"


def family(airflow: AirflowServer, name: str, *titles: str) -> dict[str, int]:
    """Make such a component and start it; process ids below it by title."""
    component = replace(airflow, name, sys.executable, "-c", FAMILY, *titles)
    airflow.start(*COMMANDS)
    airflow.wait_ready()

    def find() -> dict[str, int]:
        return {processes.title(pid): pid for pid in component.members() if processes.title(pid) in titles}

    wait_until(lambda: len(find()) == len(titles))
    return find()


def test_of_a_scheduler_the_idle_workers_go_and_the_tasks_stay(airflow: AirflowServer, clock: Clock) -> None:
    below = family(airflow, "scheduler", IDLE, BUSY)
    scheduler = airflow.components["scheduler"]
    kill(scheduler)
    scheduler.command = ["sleep", "600"]
    start_again(airflow, clock)
    assert below[IDLE] not in processes.living()
    assert below[BUSY] in processes.living()
    assert set(scheduler.members()) == {scheduler.pid, below[BUSY]}


FINISHING = """
import os, time
from setproctitle import setproctitle
if os.fork() == 0:
    setproctitle({busy!r})
    while not os.path.exists({flag!r}):
        time.sleep(0.01)
    setproctitle({idle!r})
time.sleep(600)
"""


def test_a_worker_whose_scheduler_is_gone_goes_after_its_task(
    airflow: AirflowServer, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "task is over"
    scheduler = replace(
        airflow, "scheduler", sys.executable, "-c", FINISHING.format(busy=BUSY, idle=IDLE, flag=str(flag))
    )
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    wait_until(lambda: any(processes.title(pid) == BUSY for pid in scheduler.members()))
    kill(scheduler)
    scheduler.command = ["sleep", "600"]
    start_again(airflow, clock)
    assert len(scheduler.members()) == 2
    flag.touch()
    wait_until(lambda: any(processes.title(pid) == IDLE for pid in scheduler.members()))

    # Looking for it reads all of /proc, and a task may go on for hours.
    with monkeypatch.context() as patch:
        patch.setattr(processes, "living", lambda: pytest.fail("looked again within a second"))
        clock.now += 0.9
        airflow.check()

    def look() -> bool:
        clock.now += 1
        airflow.check()
        return scheduler.members() == [scheduler.pid]

    wait_until(look)
    assert scheduler.sessions == {scheduler.pid}


@pytest.mark.parametrize("name", ["api-server", "dag-processor", "triggerer"])
def test_of_other_components_nothing_stays(airflow: AirflowServer, clock: Clock, name: str) -> None:
    below = family(airflow, name, "one", "two")
    component = airflow.components[name]
    kill(component)
    component.command = ["sleep", "600"]
    start_again(airflow, clock)
    assert not set(below.values()) & set(processes.living())
    assert component.members() == [component.pid]


def looks(airflow: AirflowServer, clock: Clock, number: int = LATE_LOOKS) -> list[str]:
    """Let the heartbeat be looked at so often; what was told."""
    told: list[str] = []
    for _ in range(number):
        clock.now += LOOK_SECONDS
        airflow.check(told.append)
    return told


def heartbeat(server: FakeServer, status: str | None) -> None:
    server.on("GET", HEALTH_PATH, Answer({"scheduler": {"status": status}}))


def test_a_scheduler_whose_loop_is_over_is_ended_and_started_again(
    server: FakeServer, airflow: AirflowServer, clock: Clock
) -> None:
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    before = {name: each.pid for name, each in airflow.components.items()}
    heartbeat(server, "healthy")
    assert looks(airflow, clock, 1) == []
    heartbeat(server, "unhealthy")
    assert looks(airflow, clock, LATE_LOOKS - 1) == []
    first, second = looks(airflow, clock, 1)
    assert first == "The scheduler runs, but has no heartbeat any more: it is ended. Tasks at work go on."
    assert second.startswith("The scheduler was ended by SIGKILL and is started again in 1 s (1 of")
    # The new one has not beaten yet, and what is told is the heartbeat of the old one.
    assert looks(airflow, clock, 2 * LATE_LOOKS) == []
    assert {name for name, each in airflow.components.items() if each.pid != before[name]} == {"scheduler"}


@pytest.mark.parametrize("between", ["healthy", None, "no answer", "no JSON"])
def test_a_heartbeat_that_is_late_now_and_then_ends_nothing(
    server: FakeServer, airflow: AirflowServer, clock: Clock, between: str | None
) -> None:
    airflow.start(*COMMANDS)
    airflow.wait_ready()
    heartbeat(server, "healthy")
    assert looks(airflow, clock, 1) == []
    for _ in range(3):
        heartbeat(server, "unhealthy")
        assert looks(airflow, clock, LATE_LOOKS - 1) == []
        if between == "no answer":
            server.on("GET", HEALTH_PATH, Answer({}, 500))
        elif between == "no JSON":
            server.on("GET", HEALTH_PATH, Answer([]))
        else:
            heartbeat(server, between)
        assert looks(airflow, clock, 1) == []
