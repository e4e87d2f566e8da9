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
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment
from nemo_airflow_provider.standalone.component import Component

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

MOST_SCHEDULER_RESTARTS = 5
TASKS_END_SECONDS = 4.0
API_END_SECONDS = 2.0


class LaunchError(Exception):
    """Airflow cannot be started, or has stopped by itself; the text says which part, and where its log is."""


class AirflowServer:
    """The components of one Airflow, as child processes of this one.

    :param environ: complete environment of the components, see `environment.server_environment`
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.home = Path(environ["AIRFLOW_HOME"])
        self.url = environment.local_url(environ)
        self._hurry = False
        self._environ = dict(environ)
        self._restarts = 0
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
            raise LaunchError(f"Airflow could not prepare its database. {_explain(migration)}")

    def start(self, *names: str) -> None:
        """Start the components named and return at once."""
        for name in names:
            self.components[name].start()

    def wait_ready(self, timeout_seconds: float = 120, look: Callable[[], None] = lambda: None) -> None:
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
                        f"{_explain(self.components[name])}"
                    )
                time.sleep(0.1)

    def _api_answers(self) -> bool:
        """Whether the API answers; who may call it is another question, so 401 counts.

        :raises LaunchError: Airflow answers, but without the jobs API
        """
        answer = _get(self.url + READY_PATH)
        if answer is None or answer.status >= 500:
            return False
        if answer.content == "application/json" and answer.status in (200, 401, 403):
            return True
        # Airflow mounts plugins before it listens and answers unknown paths with its web page.
        raise LaunchError(
            f"Airflow answers at {self.url}, but the jobs API is not in it "
            f"({READY_PATH}: HTTP {answer.status}, {answer.content}). {_explain(self.components['api-server'])}"
        )

    def _dags_are_read(self) -> bool:
        """Whether Airflow has read our DAG file, without which no job can be created; if we may not ask, yes."""
        answer = _get(self.url + DAGS_PATH)
        if answer is None or answer.status >= 500:
            return False
        return answer.status != 200 or json.loads(answer.body)["total_entries"] > 0

    def check(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Start the scheduler again if it ended: on some errors it does by design and expects to be started.

        :param report: told about every restart
        :raises LaunchError: another component ended, or the scheduler too often
        """
        for component in self.components.values():
            code = component.exit_code()
            if code is None:
                continue
            if component.name != "scheduler" or self._restarts >= MOST_SCHEDULER_RESTARTS:
                raise LaunchError(f"Airflow's {component.name} {_ended(code)}. {_explain(component)}")
            self._restarts += 1
            report(
                f"The scheduler {_ended(code)} and is started again ({self._restarts} of at most "
                f"{MOST_SCHEDULER_RESTARTS} times); its log: {component.log}"
            )
            component.start()

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


class _Answer(NamedTuple):
    status: int
    content: str
    body: bytes


def _get(url: str) -> _Answer | None:
    """One request, None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return _Answer(answer.status, answer.headers.get_content_type(), answer.read())
    except urllib.error.HTTPError as error:
        return _Answer(error.code, error.headers.get_content_type(), b"")
    except OSError:
        return None


def _explain(component: Component) -> str:
    text = component.tail()
    return f"Its log is {component.log}" + (f" and ends with:\n{text}" if text else ".")


def _ended(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"
