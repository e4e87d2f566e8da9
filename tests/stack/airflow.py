"""A real Airflow in a directory of its own, built from the launcher's parts; its components may be killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

import httpx

from nemo_airflow_provider import processes
from nemo_airflow_provider.standalone import environment
from nemo_airflow_provider.standalone.component import Component
from nemo_airflow_provider.standalone.server import AirflowServer
from tests import waiting

#: Of a developer's shell nothing that configures Airflow, the jobs API or its client may reach the stack.
FOREIGN = ("AIRFLOW", "NHX_", "NEMO_")


class AirflowStack:
    """API server, scheduler and dag-processor as processes; use as a context manager, from the main thread.

    :param home: AIRFLOW_HOME; created
    :param database: SQLAlchemy URL; None: a SQLite file in the home
    :param api_workers: processes of the API server
    :param environ: more environment, over everything else
    :param users: name → role of Airflow's simple auth manager, names being passwords; None: all are admins
    :param profiles: text of the `jobs:` file; None: `subprocess/default` alone
    """

    def __init__(
        self,
        home: Path,
        *,
        database: str | None = None,
        api_workers: int = 1,
        environ: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        profiles: str | None = None,
    ) -> None:
        self.home = home
        self._profiles = profiles
        self._users = dict(users or {})
        base = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        base |= {"AIRFLOW__CORE__PARALLELISM": "16"}
        if database:
            base["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = database
        base |= self._user_settings() | dict(environ or {})
        self.environ = environment.server_environment(base, home, port=environment.free_port(), api_workers=api_workers)
        self.server = AirflowServer(self.environ)
        self.url = self.server.url

    def _user_settings(self) -> dict[str, str]:
        if not self._users:
            return {}
        return {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role}" for name, role in self._users.items()
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
        }

    def __enter__(self) -> Self:
        environment.prepare_home(self.home)
        if self._profiles is not None:
            environment.profiles_file(self.home).write_text(self._profiles)
        if self._users:
            (self.home / "passwords.json").write_text(json.dumps({name: name for name in self._users}))
        try:
            self.server.migrate()
            self.server.start("api-server", "scheduler", "dag-processor")
            self.server.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process of the stack, detached workloads included; twice is fine."""
        left = self.server.stop(self.processes)
        assert not left, f"processes of {self.home} survived SIGKILL: {left}"

    def processes(self) -> list[int]:
        """Ids of all living processes that belong to this stack."""
        return sorted({*self.server.members(), *processes_at(self.home)})

    def kill(self, name: str) -> None:
        """SIGKILL a component's main process alone: workers, tasks and workloads stay."""
        component = self.server.components[name]
        component.send(signal.SIGKILL)
        assert component.wait(30)

    def kill_all(self, name: str) -> None:
        """SIGKILL a component with its workers and their tasks; detached workloads stay."""
        component = self.server.components[name]
        component.send_to_all(signal.SIGKILL)
        assert component.wait(30)
        processes.end(component.members)

    def restart(self, name: str) -> None:
        """Start a component again after it was killed."""
        assert not self.server.components[name].is_running(), f"{name} still runs"
        self.server.start(name)
        if name == "api-server":
            self.server.wait_ready()

    def client(self, user: str | None = None, **options: object) -> httpx.Client:
        """An HTTP client of this Airflow; close it.

        :param user: one of `users`; None: without a token
        :param options: of `httpx.Client`
        """
        headers = {"Authorization": f"Bearer {self.token(user)}"} if user else {}
        return httpx.Client(**{"base_url": self.url, "headers": headers, "timeout": 30, **options})  # type: ignore[arg-type]

    def token(self, user: str) -> str:
        """A fresh Airflow token of one of `users`."""
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def describe(self) -> str:
        """Where everything is, and how each component's log ends."""
        parts = [f"{self.url}, AIRFLOW_HOME={self.home}"]
        for component in self.server.components.values():
            if tail := component.tail(15):
                parts.append(f"--- {component.log}\n{tail}")
        return "\n".join(parts)


T = TypeVar("T")


def wait_until(look: Callable[[], T], timeout_seconds: float = 60, what: str = "it") -> T:
    """`tests.waiting.wait_until` at a pace that leaves the processor to Airflow."""
    return waiting.wait_until(look, timeout_seconds, what, pause_seconds=0.05)


@contextmanager
def stopped(component: Component) -> Iterator[None]:
    """Freeze a component's main process for the length of the block."""
    component.send(signal.SIGSTOP)
    try:
        yield
    finally:
        component.send(signal.SIGCONT)


def processes_at(home: Path) -> set[int]:
    """Living processes with the home in their arguments, their environment or as their directory.

    A workload leaves every session and process group of Airflow, but works in a directory below the home.
    """
    needle = os.fsencode(home)
    found = set()
    for pid in processes.living():
        folder = Path("/proc", str(pid))
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            text += os.fsencode((folder / "cwd").readlink())
        except OSError:
            continue  # ended, or somebody else's
        if needle in text and pid != os.getpid():
            found.add(pid)
    return found
