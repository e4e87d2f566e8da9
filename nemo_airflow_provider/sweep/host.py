"""One sweep through the engines that this process reaches. It keeps nothing: killed at any moment, the next goes on."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TypeVar

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.powers import HeldJob
from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.logs.pump import Pump
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.sweep.duties import Duty, duty, is_removable
from nemo_airflow_provider.sweep.engines import SweptEngine
from nemo_airflow_provider.sweep.leaving import left_for_next
from nemo_airflow_provider.sweep.office import (
    MOST_JOBS,
    AskedJob,
    AskedWorkload,
    Ending,
    Hold,
    JobStanding,
    Office,
    WorkloadStanding,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Left:
    """A workload without a runner, whose rest is to be stored."""

    engine: SweptEngine
    key: WorkloadKey
    standing: WorkloadStanding

    def observe(self) -> Observation:
        return self.engine.backend.observe(self.key)


class HostSweep:
    """One sweep.

    :param installation: whose workloads are swept
    :param storage: root of the log store
    :param variable: the value of an Airflow Variable, None when it has none that can be read here; raises
        `NemoJobsError` when nobody can tell now
    :param seconds: how long output is collected; what is not done then is done by the next sweep
    """

    def __init__(
        self,
        office: Office,
        installation: str,
        storage: Path,
        variable: Callable[[str], str | None],
        *,
        seconds: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._office = office
        self._installation = installation
        self._storage = storage
        self._variable = variable
        self._deadline = clock() + seconds
        self._clock = clock
        self._done: Counter[str] = Counter()
        #: How many things are left for the next sweep.
        self.undone = 0

    def run(self, engines: Iterable[SweptEngine]) -> Counter[str]:
        """Sweep; what was done, in numbers.

        :raises NemoJobsError: the office does not answer
        """
        left: list[_Left] = []
        for engine in engines:
            for jobs in _batches(self._held(engine), MOST_JOBS):
                for job, standing in zip(jobs, self._office.standings([_asked(job) for job in jobs]), strict=True):
                    left += self._sweep(engine, job, standing)
        # A step each, so that a sweep that is killed has told what it had.
        for each in left:
            if (ending := self._collect(each)) is not None:
                self._done["settled"] += self._office.settle([ending])
        return self._done

    def _leave(self) -> None:
        self.undone += 1

    def _held(self, engine: SweptEngine) -> Iterator[HeldJob]:
        """What an engine holds, up to where it fails."""
        with left_for_next("An engine", self._leave):
            yield from engine.power.held_jobs(self._installation)

    def _sweep(self, engine: SweptEngine, job: HeldJob, standing: JobStanding) -> list[_Left]:
        with left_for_next(f"Run {job.run_id} of workspace '{job.workspace}'", self._leave):
            if self._removed(engine, job, standing):
                return []
            return [
                _Left(engine, key, each)
                for key, each in zip(job.workloads, standing.workloads, strict=True)
                if self._handled(engine, key, each)
            ]
        return []

    def _removed(self, engine: SweptEngine, job: HeldJob, standing: JobStanding) -> bool:
        """Remove what is left of a job, if it may go and nothing of it lives."""
        ttl = engine.ttl_seconds(standing.profiles)
        if not is_removable(standing, ttl_seconds=ttl):
            return False
        removed = engine.power.remove_job(job.workspace, job.run_id, job.run_key)
        self._done["removed"] += removed
        return removed

    def _handled(self, engine: SweptEngine, key: WorkloadKey, standing: WorkloadStanding) -> bool:
        """Do what is to be done with a workload at once; whether its rest is still to be stored."""
        if standing.hold is Hold.LIVE:
            return False  # not even looked at: a look at a lost workload ends what is left of it
        ours = not standing.engine or engine.power.speaks_for(standing.engine)
        phase = engine.backend.observe(key).phase
        todo = duty(standing, phase, ours=ours, ttl_seconds=engine.ttl_seconds([standing.profile]))
        if todo is Duty.STOP:
            log.info("Stopping %s of run %s: nobody needs it any more", key.task, key.run_id)
            grace_seconds = engine.config(standing.profile).graceful_shutdown_timeout_seconds
            engine.backend.stop(key, standing.grace_seconds or grace_seconds)
            self._done["stopped"] += 1
            return standing.hold is Hold.OVER and not standing.settled and ours
        if todo is Duty.CLEAN:
            engine.backend.cleanup(key)
            self._done["cleaned"] += 1
        return todo is Duty.COLLECT

    def _collect(self, left: _Left) -> Ending | None:
        """Store the rest of a workload's output; how it ended, unless there was no time to see that."""
        what = f"{left.key.task} of run {left.key.run_id} in workspace '{left.key.workspace}'"
        with left_for_next(what, self._leave):
            while (seen := left.observe()).phase.lives:
                if self._clock() >= self._deadline:
                    return None
                left.engine.backend.wait(left.key, self._deadline - self._clock(), Event())
            mask, gone = self._mask(left)
            trouble = f"The rest of the output is not stored: it may hold secrets that are gone ({gone})"
            told = trouble if gone else self._pumped(left, mask)
            if told is None:
                return None
            details = mask.fields({**seen.details, **({"log_error": told} if told else {})})
            message = None if seen.phase is Phase.ENDED else mask.text(_lost_text(left, seen))
            return Ending.of(left.key, seen.exit_code, message, details)
        return None

    def _mask(self, left: _Left) -> tuple[Mask, str]:
        """What hides the workload's secrets, and the names of those that nobody knows any more."""
        found = {key: self._variable(key) for key in left.standing.secrets}
        return Mask(value for value in found.values() if value is not None), ", ".join(
            key for key, value in found.items() if value is None
        )

    def _pumped(self, left: _Left, mask: Mask) -> str | None:
        """Pump until the deadline. None: not all is stored yet; else what can never be stored, or nothing."""
        key, backend = left.key, left.engine.backend
        stream = StreamId(key.workspace, key.run_key, left.standing.step_index, key.generation)
        pump = Pump(
            lambda position, stop: backend.read_logs(key, position, stop),
            self._storage,
            stream,
            key.start,
            stderr_prefix=backend.stderr_prefix,
        )
        pump.start(mask)
        while not pump.join(0.05) and self._clock() < self._deadline:
            pass
        pump.stop()
        pump.join(2.0)
        if pump.error is not None:
            return f"The rest of the output is not stored: {pump.error}"
        return "" if pump.finished else None


def _lost_text(left: _Left, seen: Observation) -> str:
    text = (seen.message or left.engine.backend.lost_text).rstrip(".")
    return f"{text}; it was started on {left.standing.engine}" if left.standing.engine else text


def _asked(job: HeldJob) -> AskedJob:
    workloads = [AskedWorkload(step=key.step, generation=key.generation, start=key.start) for key in job.workloads]
    return AskedJob(workspace=job.workspace, run_id=job.run_id, run_key=job.run_key, workloads=workloads)


def _batches(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
