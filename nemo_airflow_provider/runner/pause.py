"""A pause of a step: its workload is stopped or frozen, the step rests, and after a while gives its worker slot back.

`pause: stop`: the workload ends as by a cancel, the step rests with nothing alive, and goes on with the next start.
`pause: freeze`: the workload stays in memory, watched as ever, and the same one goes on. A step that has not begun
rests without having started anything. Whichever it is, the record says how the workload is paused before the engine is
asked, and that the task gives its slot back before Airflow is: any later try can go on from there.
"""

from __future__ import annotations

import time

from nemo_airflow_provider.backends.base import BackendConfig, Observation, Phase
from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsPause
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import StepRecord
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.runner.engine import Engine
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.outcome import Outcome
from nemo_airflow_provider.runner.task import StepHost, StepParked, StepTask, StoreUnavailable
from nemo_airflow_provider.runner.timing import Timing
from nemo_airflow_provider.runner.wishes import Wishes

#: Between two tries to give the slot back, when the API server does not answer.
_RETRY_SECONDS = 5.0
_BODY = "It holds no worker slot. Resume it, or cancel it, here or with `nemo jobs`."


class Pause:
    """The pauses of one try of a step."""

    def __init__(
        self,
        task: StepTask,
        host: StepHost,
        journal: Journal,
        engine: Engine,
        config: BackendConfig,
        wishes: Wishes,
        timing: Timing,
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._engine = engine
        self._config = config
        self._wishes = wishes
        self._timing = timing
        #: When the worker slot is given back; None while the step is not paused.
        self._park_at: float | None = None

    # --- with a workload ---------------------------------------------------------------------------

    def act(self, key: WorkloadKey, seen: Observation) -> bool:
        """Do what is wished with a living workload; whether a pause is going on, so that its limits stand still."""
        wished = self._wishes.newest() is Action.PAUSE
        record = self._journal.known
        assert record.handle is not None
        if record.handle.pausing == "stop":
            self._stop(key)  # it ends, whatever is wished now; the try that wrote this may not have asked for it
            return True
        if record.handle.pausing is None:
            if wished:
                return self._begin(key, seen)
            if seen.frozen:
                self._let_go(key)  # an earlier try could not, or somebody else froze it
            return seen.frozen
        if not wished:
            self._resume(record, key)
        elif not seen.frozen:
            self._freeze(key)
        else:
            self._give_slot_back()
        return True

    def _begin(self, key: WorkloadKey, seen: Observation) -> bool:
        mode, backend = self._config.pause, self._engine.backend
        if not isinstance(backend, SupportsFreeze if mode == "freeze" else SupportsPause):
            return False  # the jobs API refuses it; the next step will rest
        if mode == "freeze" and seen.phase is not Phase.RUNNING:
            return False
        record = self._journal.known
        assert record.handle is not None
        record.handle.pausing = mode
        self._tell(record, Status.PAUSING)
        self._wishes.quicken()
        if mode == "freeze":
            self._host.note(f"Freezing {key.task}")
            self._freeze(key)
        else:
            self._stop(key)
        return True

    def _stop(self, key: WorkloadKey) -> None:
        """Ask for the workload's end."""
        grace = self._config.graceful_shutdown_timeout_seconds
        if self._engine.stop(key, grace):
            self._host.note(f"Stopping {key.task} for a pause, {grace} s of grace")

    def _freeze(self, key: WorkloadKey) -> None:
        backend = self._engine.backend
        assert isinstance(backend, SupportsFreeze)
        try:
            backend.freeze(key)
        except BackendError as error:
            self._journal.explain(f"The workload cannot be frozen now: {error}")

    def _resume(self, record: StepRecord, key: WorkloadKey) -> None:
        assert record.handle is not None
        record.handle.pausing = None
        # Only a try that is current may let the workload go: a write tells.
        self._tell(record, Status.RESUMING)
        self._park_at = None
        self._host.note(f"{key.task} goes on")
        self._let_go(key)

    def _let_go(self, key: WorkloadKey) -> None:
        backend = self._engine.backend
        assert isinstance(backend, SupportsFreeze)
        try:
            backend.thaw(key)
        except BackendError as error:
            self._journal.explain(f"The workload cannot go on yet: {error}")

    def _tell(self, record: StepRecord, status: Status) -> None:
        record.status, record.updated_at, record.parked_at = status, self._journal.now(), None
        record.status_details = {**record.status_details, "message": f"Job is {status}"}
        self._journal.store()

    # --- without one -------------------------------------------------------------------------------

    def rest(self, outcome: Outcome) -> None:
        """Hold the step, of which nothing lives, until something else than a pause is wished, or this process must go.

        :param outcome: how its workload was paused, or that none was begun
        :raises StepParked: the worker slot is given back
        """
        self._note_rest(outcome)
        self._host.note(outcome.message)
        self._wishes.quicken()
        while self._wishes.newest() is Action.PAUSE and not self._host.terminated.is_set():
            self._give_slot_back()
            self._host.terminated.wait(self._timing.intent)
        self._park_at = None

    def _note_rest(self, outcome: Outcome) -> None:
        record = self._journal.begun()
        if record.rests and record.parked_at is None:
            return
        record.parked_at = None
        if not record.rests:
            moment = self._journal.now()
            record.status, record.updated_at = Status.PAUSED, moment
            record.status_details = self._journal.details(outcome.message, outcome.details)
            record.count_pause(moment)
            task = record.newest_task
            if task is not None and not task.status.terminal:
                task.status, task.updated_at = Status.PAUSED, moment
                task.status_details = dict(record.status_details)
        self._journal.store()

    # --- the worker slot ---------------------------------------------------------------------------

    def _give_slot_back(self) -> None:
        """Leave the worker once the pause has lasted a while.

        The record says that the task is parking before what is wished is read for the last time. So a resume finds
        either a task that will read it, or one that says it must be woken.
        """
        moment = time.monotonic()
        if self._park_at is None:
            self._park_at = moment + self._timing.park
        if moment < self._park_at or self._host.terminated.is_set():
            return
        record = self._journal.known
        record.parked_at = self._journal.now()
        self._journal.store()
        try:
            self._host.invite(f"Job '{self._task.job_name}' is paused in step '{self._task.step.name}'", _BODY)
        except StoreUnavailable:
            self._unpark(moment)
            return
        if self._wishes.newest(at_once=True) is Action.PAUSE:
            raise StepParked("the step is paused and gives its worker slot back")
        self._host.withdraw()
        self._unpark(moment)

    def _unpark(self, moment: float) -> None:
        self._journal.known.parked_at = None
        self._journal.store()
        self._park_at = moment + _RETRY_SECONDS


def shown(record: StepRecord, seen: Observation) -> tuple[Status, str]:
    """Status and message of a step with a living workload that nobody has cancelled."""
    pausing = record.handle.pausing if record.handle else None
    if pausing is not None:
        return (Status.PAUSED, "Job is paused") if seen.frozen else (Status.PAUSING, "Job is pausing")
    if seen.frozen:
        return Status.RESUMING, "Job is resuming"
    if seen.phase is Phase.PENDING:
        return Status.PENDING, seen.message or "Job is pending"
    return Status.ACTIVE, seen.message or "Job is running"
