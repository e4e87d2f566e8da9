"""A backend that is asked until it answers: an engine that is away costs neither the step nor a try."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nemo_airflow_provider.backends.base import Backend, Observation
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.runner.task import StepHost, StepLeft

T = TypeVar("T")


class Engine:
    """The verbs of a backend, patient.

    :param retry_seconds: between two questions to an engine that does not answer
    :param stop_again_seconds: how long after its grace a workload that lives on is asked again to end
    :param while_away: told of each question without an answer, and for how many seconds there was none; raises what
        ends the patience
    """

    def __init__(
        self,
        backend: Backend,
        host: StepHost,
        retry_seconds: float,
        stop_again_seconds: float,
        while_away: Callable[[str, float], None],
    ) -> None:
        self.backend = backend
        self._host = host
        self._retry_seconds = retry_seconds
        self._stop_again_seconds = stop_again_seconds
        self._while_away = while_away
        #: When a workload that was asked to end is asked again.
        self._stop_again_at: dict[WorkloadKey, float] = {}

    def observe(self, key: WorkloadKey) -> Observation:
        """Look at a workload."""
        return self.patiently(lambda: self.backend.observe(key))

    def stop(self, key: WorkloadKey, grace_seconds: float) -> bool:
        """Ask for an end, and again where a workload outlives its grace: an engine that was started anew has lost its
        timer. To be called as long as the workload lives; whether it was the first request."""
        again_at = self._stop_again_at.get(key)
        if again_at is not None and time.monotonic() < again_at:
            return False
        self.patiently(lambda: self.backend.stop(key, grace_seconds))
        self._stop_again_at[key] = time.monotonic() + grace_seconds + self._stop_again_seconds
        return again_at is None

    def others(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        """Every other workload of the step that the engine knows."""
        return [other for other in self.patiently(lambda: self.backend.find(key)) if other != key]

    def give_up(self, key: WorkloadKey) -> None:
        """Nothing of a workload that never ran is needed any more; what cannot be removed now is left to the sweep."""
        try:
            self.backend.stop(key, 0.0)
        except BackendError as error:
            self._host.note(f"{key.task} may have left something in the engine: {error}")

    def cleanup(self, key: WorkloadKey) -> None:
        """Remove what an ended workload left; what stays is removed later by its TTL."""
        try:
            self.backend.cleanup(key)
        except BackendError as error:
            self._host.note(f"{key.task} could not be cleaned up: {error}")

    def patiently(self, call: Callable[[], T], most_seconds: float = math.inf) -> T:
        """Ask until there is an answer.

        :param most_seconds: for what may fail for good, such as a file on a disk that is broken
        :raises BackendError: there was none for so long
        :raises StepLeft: this process had to go first
        """
        told = False
        asked_at = time.monotonic()
        while True:
            try:
                return call()
            except BackendError as error:
                seconds = time.monotonic() - asked_at
                if seconds >= most_seconds:
                    raise
                if not told:
                    self._host.note(f"The engine does not answer, asking again: {error}")
                    told = True
                if not self._host.terminated.is_set():  # else the record may belong to the next try already
                    self._while_away(str(error), seconds)
                if self._host.terminated.wait(self._retry_seconds):
                    raise StepLeft(str(error)) from error
