"""What a backend is: verbs over an engine.

A backend turns one start of one step into one workload (process, container, pods), and the engine's states into
an `Observation`. It keeps no state of its own: the engine, and names derived from the `WorkloadKey`, are the truth,
so any other worker process can go on where this one was killed. Backends import no Airflow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from nemo_airflow_provider.backends.config import BackendConfig as BackendConfig
from nemo_airflow_provider.errors import Fault
from nemo_airflow_provider.model.logline import Stream
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.spec import StepSpec

#: Position in an engine's output: any JSON value the backend likes; only ever handed back to it.
Position = Any


class Signal(Protocol):
    """What a waiter may be woken by; `threading.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True, slots=True)
class Environment:
    """The groups a task's environment is made of; each backend orders them (job specification contract §5).

    :param system: `NEMO_JOB_*` that every backend sets
    :param step: the step's own items without secrets, in order; the last of a name wins
    :param platform: `NHX_*` URLs and switches
    :param principal: `NHX_PRINCIPAL`, or nothing
    :param secrets: values of `from_secret` items; never logged, labelled or stored
    """

    system: Mapping[str, str]
    step: Mapping[str, str] = field(default_factory=dict)
    platform: Mapping[str, str] = field(default_factory=dict)
    principal: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """What `submit` is asked to start.

    :param key: names it; two submits of one key start one workload
    :param step: the validated step
    :param attempt_id: id of the attempt, for labels
    :param environment: see `Environment`
    :param installation: whose it is, see `installation.installation_id`; what has none is never swept
    :param step_id: id of the step's generation as the jobs API shows it, for labels
    """

    key: WorkloadKey
    step: StepSpec
    attempt_id: str
    environment: Environment
    installation: str = ""
    step_id: str = ""


class Phase(StrEnum):
    """Where a workload is, in the engine's eyes."""

    ABSENT = "absent"  #: the engine has never heard of it, or has forgotten it
    PENDING = "pending"  #: accepted, not running yet
    RUNNING = "running"
    ENDED = "ended"  #: it ran, and `exit_code` says how it ended
    LOST = "lost"  #: it was there and nobody can say how it ended

    @property
    def lives(self) -> bool:
        """Whether its end is still to come."""
        return self in (Phase.PENDING, Phase.RUNNING)


#: Why a workload was ended by us rather than by itself: by `stop`; after its time limit; since nobody could find it any
#: more; since somebody else told its owner to go, such as a host that shuts down. Or by an engine that was itself
#: stopped, whatever exit code that made: "interrupted".
StopReason = Literal["asked", "ttl", "orphaned", "signalled", "interrupted"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a workload.

    :param phase: see `Phase`
    :param exit_code: of the main process once ended; negative for a signal
    :param stopped: why we ended it, if we did
    :param frozen: whether it lives and all of it stands still, see `powers.SupportsFreeze`
    :param message: one sentence for `status_details.message` while it lives, or why it was lost
    :param details: more for `status_details`
    :param error: `error_details` beside the message, when the engine gave a reason
    :param fault: whose fault an error is
    :param hopeless: why it will never run, though the engine goes on trying: then it is ended
    :param note: where it runs, or why it does not: a sentence for the task log
    """

    phase: Phase
    exit_code: int | None = None
    stopped: StopReason | None = None
    message: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    fault: Fault = "user"
    frozen: bool = False
    hopeless: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes a workload wrote, as the engine delivers them; not necessarily whole lines.

    Re-reading from `start` delivers the same bytes again, so a resumed pump can skip exactly what it has stored.

    :param task: task name of the workload that wrote them
    :param stream: `stdout` or `stderr`
    :param micros: when the engine saw them, microseconds since 1970 UTC
    :param data: raw bytes
    :param start: position of this chunk
    :param end: position after it
    """

    task: str
    stream: Stream
    micros: int
    data: bytes
    start: Position
    end: Position


@dataclass(frozen=True)
class Site:
    """What of an installation a backend needs beside its profile.

    :param connect: the way to an engine of a kind (`docker`, `kubernetes`), by the Airflow connection that a profile
        names, or None; raises `BackendError`
    :param default_task_image: of steps and profiles that name none
    :param loopback_address: what containers call the host, where the configuration says so
    :param gpu_device_ids: ids of the host's GPUs that jobs may use; None: all
    :param lock_directory: what the processes of a host share; None: the host's own place for that
    :param image_pull_secrets: names of those of every pod
    """

    connect: Callable[[str, str | None], Any]
    default_task_image: str = ""
    loopback_address: str | None = None
    gpu_device_ids: tuple[int, ...] | None = None
    lock_directory: Path | None = None
    image_pull_secrets: tuple[str, ...] = ()


class Backend(ABC):
    """Verbs over one engine, for one profile. Every verb may be called twice, and on something gone."""

    #: Put before each line of stderr in the log (job specification contract §6.1); most backends have none.
    stderr_prefix: ClassVar[str] = ""
    #: What a workload is called in messages.
    noun: ClassVar[str] = "Workload"
    #: Whether the engine itself ends a workload whose active TTL has run out: then ours goes off a little later.
    has_active_timer: ClassVar[bool] = True
    #: Whether a workload runs once `submit` has returned; else `observe` tells when it does.
    starts_at_once: ClassVar[bool] = True
    #: Says that a workload is gone and nobody knows how it ended.
    lost_text: ClassVar[str] = "Workload not found"

    @abstractmethod
    def identity(self) -> str:
        """Names the engine itself, so that a handle of another one is recognised.

        :raises BackendError: the engine does not answer
        """

    @abstractmethod
    def find(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        """Every workload of the key's step that the engine still knows: any generation, any start, ended or not."""

    @abstractmethod
    def submit(self, workload: Workload) -> Mapping[str, Any]:
        """Start the workload, or adopt the one that exists under its name.

        :return: `status_details` of the new workload
        :raises StartError: it cannot be started as written
        :raises CapacityError: no room now; ask again
        :raises BackendError: the engine does not answer
        """

    @abstractmethod
    def observe(self, key: WorkloadKey) -> Observation:
        """Look at the workload.

        :raises BackendError: the engine does not answer; the workload may be well
        """

    @abstractmethod
    def read_logs(self, key: WorkloadKey, position: Position | None, stop: Signal) -> Iterator[Chunk | None]:
        """Output from `position` (None: from the start) to the last byte, as it is written.

        Yields None at least once a second while there is nothing new; ends when the workload has ended and all of
        its output was delivered, or when `stop` is set. Called from a thread of its own.
        """

    @abstractmethod
    def stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        """Ask for a graceful, then hard, end and return at once; the engine owns the timer."""

    @abstractmethod
    def cleanup(self, key: WorkloadKey) -> None:
        """Remove what an ended workload left in the engine."""

    @abstractmethod
    def wait(self, key: WorkloadKey, seconds: float, wake: Signal) -> None:
        """Return when the workload may have changed, when `wake` is set, or after `seconds`.

        An engine that does not answer is nothing to be told of here: whoever looks next is told.
        """
