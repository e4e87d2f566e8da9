"""What a measurement is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import httpx


class Skipped(Exception):
    """What a measurement needs is not on this machine; the text is a sentence that says what."""


class System(Protocol):
    """A running server that speaks the jobs API, ours or upstream's."""

    @property
    def url(self) -> str: ...

    @property
    def nemo(self) -> str:
        """Path of the `nemo` command that belongs to it."""

    def client(self) -> AbstractContextManager[httpx.Client]:
        """A client of the server, for the length of a block."""

    def each_worker(self) -> System:
        """The same, whose connections go to one API worker after the other."""

    @property
    def burst(self) -> int:
        """How many jobs are asked of it at once."""

    @property
    def slots(self) -> int:
        """How many tasks its executor runs at once."""

    def api_megabytes(self) -> float:
        """Resident memory of the processes that answer requests."""

    def api_processor_seconds(self) -> float:
        """Processor time that they have spent."""

    def task_processor_seconds(self) -> float:
        """Processor time that the scheduler, its executor and the tasks have spent, those that have ended included."""

    def api_log_size(self) -> int:
        """Where the log of the requests ends now."""

    def task_requests(self, position: int) -> Mapping[str, int]:
        """Requests of running tasks since then, by path."""

    def task_megabytes(self) -> TaskMemory:
        """Memory of the processes in which tasks run."""


@dataclass(frozen=True)
class TaskMemory:
    """Proportional share of memory (PSS) in megabytes.

    :param airflow: of the scheduler's executor and all that it started: Airflow's two processes a task
    :param supervisors: of the processes that keep a step's workload, outside of Airflow
    """

    airflow: float
    supervisors: float


#: One number, or several by name.
Sample = float | Mapping[str, float]


@dataclass(frozen=True)
class Measurement:
    """One number, or a few that belong together, measured several times on each system.

    :param name: its key in the report; ends with the unit
    :param sample: measures once
    :param runs: how often, unless `--runs` says otherwise
    :param warm_up: how often before that, told apart; the same on both systems
    :param upstream: whether it is measured on upstream too
    :param slots: tasks that its Airflow must run at once, which is started for it alone then; None: any
    """

    name: str
    sample: Callable[[System], Sample]
    runs: int
    warm_up: int = 1
    upstream: bool = True
    slots: int | None = None


S = TypeVar("S", bound=Sample)
MEASUREMENTS: dict[str, Measurement] = {}


def measurement(
    name: str, *, runs: int, warm_up: int = 1, upstream: bool = True, slots: int | None = None
) -> Callable[[Callable[[System], S]], Callable[[System], S]]:
    """Register the decorated function under the name; its module must be imported by `bench.__main__`."""

    def register(sample: Callable[[System], S]) -> Callable[[System], S]:
        MEASUREMENTS[name] = Measurement(name, sample, runs, warm_up, upstream, slots)
        return sample

    return register


def chosen(names: Sequence[str]) -> list[Measurement]:
    """Those named, or all; a name's beginning, up to an underscore, stands for all that begin so.

    :raises ValueError: there is no such measurement
    """
    if unknown := {given for given in names if not any(_is_meant(name, given) for name in MEASUREMENTS)}:
        raise ValueError(f"No measurement {', '.join(sorted(unknown))}; there are {', '.join(sorted(MEASUREMENTS))}.")
    return [
        entry for name, entry in MEASUREMENTS.items() if not names or any(_is_meant(name, given) for given in names)
    ]


def _is_meant(name: str, given: str) -> bool:
    return f"{name}_".startswith(f"{given}_")
