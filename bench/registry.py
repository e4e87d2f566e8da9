"""What a measurement is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import httpx


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

    def api_megabytes(self) -> float:
        """Resident memory of the processes that answer requests."""


@dataclass(frozen=True)
class Measurement:
    """One number, measured several times on each system.

    :param name: its key in the report; ends with the unit
    :param sample: measures once
    :param runs: how often, unless `--runs` says otherwise
    :param warm_up: how often before that, told apart; the same on both systems
    :param upstream: whether it is measured on upstream too
    """

    name: str
    sample: Callable[[System], float]
    runs: int
    warm_up: int = 1
    upstream: bool = True


MEASUREMENTS: dict[str, Measurement] = {}


def measurement(
    name: str, *, runs: int, warm_up: int = 1, upstream: bool = True
) -> Callable[[Callable[[System], float]], Callable[[System], float]]:
    """Register the decorated function under the name; its module must be imported by `bench.__main__`."""

    def register(sample: Callable[[System], float]) -> Callable[[System], float]:
        MEASUREMENTS[name] = Measurement(name, sample, runs, warm_up, upstream)
        return sample

    return register


def chosen(names: Sequence[str]) -> list[Measurement]:
    """Those named, or all.

    :raises ValueError: there is no such measurement
    """
    if unknown := set(names) - set(MEASUREMENTS):
        raise ValueError(f"No measurement {', '.join(sorted(unknown))}; there are {', '.join(sorted(MEASUREMENTS))}.")
    return [entry for name, entry in MEASUREMENTS.items() if not names or name in names]
