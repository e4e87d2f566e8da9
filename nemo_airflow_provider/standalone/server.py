"""One Airflow out of its components: prepare the database, start, wait until it answers, watch, end.

`airflow standalone` is not used: on two cores it needs 25 to 60 seconds, and ended by SIGTERM it leaves its
children behind. Started directly, the API answers after 7 s (one worker) or 10 s (two workers), of which the
database takes 2, and each component can be watched, ended and started again.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import asking, environment
from nemo_airflow_provider.standalone.component import Component
from nemo_airflow_provider.standalone.pulse import Pulse
from nemo_airflow_provider.standalone.restarts import ALLOWANCE, Restarts

READY_PATH = "/apis/jobs/v2/execution-profiles"
DAGS_PATH = "/api/v2/dags?tags=nemo&limit=1"

#: The log servers are for logs of other machines; here the API server reads the files itself.
COMMANDS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}

#: In the order they are asked to end: nothing new is started any more, and tasks can still report to the API.
STOP_FIRST = ("scheduler", "dag-processor", "triggerer")

#: Components that nothing else needs, and what does not work without them.
DISPENSABLE = {"triggerer": "deferred tasks wait until the next start, jobs do not need it"}

#: Between two looks for what earlier starts have left.
LOOK_SECONDS = 1.0

TASKS_END_SECONDS = 4.0
API_END_SECONDS = 2.0


class LaunchError(Exception):
    """Airflow cannot be started, or has stopped by itself; the text says which part, and where its log is."""


class AirflowServer:
    """The components of one Airflow, as child processes of this one.

    :param environ: complete environment of the components, see `environment.server_environment`
    :param clock: seconds, for pauses between restarts and for looks at what is left
    """

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self.home = Path(environ["AIRFLOW_HOME"])
        self.url = environment.local_url(environ)
        self._hurry = False
        self._environ = dict(environ)
        self._was_ready = False
        self._given_up: set[str] = set()
        self._clock = clock
        self._next_look = clock()
        self._restarts = {name: Restarts(clock) for name in COMMANDS}
        self._pulse = Pulse(clock)
        self.logs = self.home / "logs" / "standalone"
        self.components = {name: self._component(name, command) for name, command in COMMANDS.items()}

    def _component(self, name: str, command: list[str]) -> Component:
        return Component(name, [sys.executable, "-m", "airflow", *command], self._environ, self.logs / f"{name}.log")

    def migrate(self) -> None:
        """Create or upgrade the database.

        :raises LaunchError: it could not be done
        """
        for old in self.logs.glob("*.log"):
            old.unlink()
        migration = self._component("db-migrate", ["db", "migrate"])
        migration.start()
        while not migration.wait(0.2):
            pass
        if migration.exit_code() != 0:
            raise LaunchError(f"Airflow could not prepare its database. {migration.account()}")

    def start(self, *names: str) -> None:
        """Start the components named, without waiting for them; what an earlier start has left is ended first."""
        for name in names:
            _end_remains(self.components[name])
            self.components[name].start()

    def wait_ready(self, timeout_seconds: float = 300, look: Callable[[], None] = lambda: None) -> None:
        """Return when the API answers and jobs can be created; `look` is called several times a second.

        :raises LaunchError: a component ended, the jobs API is not there, or the time is over
        """
        deadline = time.monotonic() + timeout_seconds
        waits = (("api-server", READY_PATH, self._api_answers), ("dag-processor", DAGS_PATH, self._dags_are_read))
        for name, path, is_over in waits:
            while not is_over():
                look()
                self.check()
                if time.monotonic() > deadline:
                    raise LaunchError(
                        f"{self.url}{path} did not answer as it should within {timeout_seconds:.0f} s. "
                        f"{self.components[name].account()}"
                    )
                time.sleep(0.1)
        self._was_ready = True

    def _api_answers(self) -> bool:
        """Whether the API answers; who may call it is another question, so 401 counts.

        :raises LaunchError: Airflow answers, but without the jobs API
        """
        answer = asking.get(self.url + READY_PATH)
        if answer is None or answer.status >= 500:
            return False
        if answer.content == "application/json" and answer.status in (200, 401, 403):
            return True
        # Airflow mounts plugins before it listens and answers unknown paths with its web page.
        raise LaunchError(
            f"Airflow answers at {self.url}, but the jobs API is not in it "
            f"({READY_PATH}: HTTP {answer.status}, {answer.content}). {self.components['api-server'].account()}"
        )

    def _dags_are_read(self) -> bool:
        """Whether Airflow has read our DAG file, without which no job can be created; if we may not ask, yes."""
        answer = asking.get(self.url + DAGS_PATH)
        if answer is None or answer.status >= 500:
            return False
        return answer.status != 200 or json.loads(answer.body)["total_entries"] > 0

    def check(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Start components again that ended: on some errors the scheduler does by design and expects to be started.

        A scheduler that runs and has no heartbeat any more is ended first.

        It never waits: a pause before a restart is over at a later call. Before everything was ready once, an end is
        taken for a fault of the configuration, which no restart mends.

        :param report: told about every restart, before its pause
        :raises LaunchError: a component ended before it was ready, or too often
        """
        self._end_silent_scheduler(report)
        for name, component in self.components.items():
            if name in self._given_up or component.exit_code() is None:
                continue
            if not self._restarts[name].is_planned:
                self._plan_restart(component, report)
            elif self._restarts[name].take():
                self.start(name)
        if self._clock() >= self._next_look:
            # What is left of a scheduler may be a task of hours, and each look reads all of /proc.
            self._next_look = self._clock() + LOOK_SECONDS
            for component in self.components.values():
                _end_remains(component)

    def _end_silent_scheduler(self, report: Callable[[str], None]) -> None:
        scheduler = self.components["scheduler"]
        if self._was_ready and scheduler.is_running() and self._pulse.has_stopped(self.url, scheduler.pid or 0):
            report("The scheduler runs, but has no heartbeat any more: it is ended. Tasks at work go on.")
            scheduler.send(signal.SIGKILL)
            scheduler.wait(1)

    def _plan_restart(self, component: Component, report: Callable[[str], None]) -> None:
        name, ending = component.name, component.ending()
        if not self._was_ready:
            raise LaunchError(f"Airflow's {name} {ending}. {component.account()}")
        if restart := self._restarts[name].plan():
            report(
                f"The {name} {ending} and is started again in {restart.pause_seconds:g} s ({restart.number} of at most "
                f"{ALLOWANCE}); its log: {component.log}"
            )
            return
        too_often = f"Airflow's {name} {ending}, after it was started again {ALLOWANCE}."
        if name not in DISPENSABLE:
            raise LaunchError(f"{too_often} {component.account()}")
        self._given_up.add(name)
        report(f"{too_often} It stays away: {DISPENSABLE[name]}. {component.account()}")

    def stop(self, find_rest: Callable[[], list[int]] | None = None) -> list[int]:
        """End every component and whatever it left, in about six seconds at most; twice is fine.

        A plain SIGTERM makes the scheduler wait for its running tasks for ever, so whole sessions are told.

        :param find_rest: finds the processes to kill at last; default: members of the components' sessions
        :return: processes that survived SIGKILL; normally none
        """
        first = [self.components[name] for name in STOP_FIRST]
        api = self.components["api-server"]
        self._terminate(first, TASKS_END_SECONDS)
        self._terminate([api], API_END_SECONDS)
        for component in self.components.values():
            component.send_to_all(signal.SIGKILL)
        left = processes.end(find_rest or self.members)
        for component in self.components.values():
            component.wait(1)
        return left

    def end_at_once(self) -> None:
        """Make this `stop`, or the next one, not wait for an orderly end; safe in a signal handler."""
        self._hurry = True

    def members(self) -> list[int]:
        """Living processes of the components' sessions."""
        return [pid for component in self.components.values() for pid in component.members()]

    def _terminate(self, components: list[Component], timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        if self._hurry:
            return
        for component in components:
            component.send_to_all(signal.SIGTERM)
        while not self._hurry and time.monotonic() < deadline:
            if not any(component.is_running() or component.members() for component in components):
                return
            time.sleep(0.05)


def _end_remains(component: Component) -> None:
    """End what earlier starts of a component have left, but no task: it goes on without its scheduler.

    Workers of another API server would hold its port; idle workers of another scheduler would wait for ever.
    """
    spares_tasks = component.name == "scheduler"
    processes.end(lambda: [pid for pid in component.remains() if not spares_tasks or _is_idle_worker(pid)])


def _is_idle_worker(pid: int) -> bool:
    """Whether it is a worker of LocalExecutor between two tasks, by the title that Airflow gives it."""
    return processes.title(pid).endswith("<idle>")
