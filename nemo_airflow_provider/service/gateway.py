"""What the service needs of Airflow, as a Protocol: tests use one in memory, the API server `AirflowGateway`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from nemo_airflow_provider.model import authored, names


class Right(StrEnum):
    """What a caller wants to do; each maps to one question of Airflow's auth manager."""

    READ = "read"
    READ_LOGS = "read_logs"
    CREATE = "create"
    UPDATE = "update"
    ANSWER = "answer"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the credentials to hand on to Airflow's own API.

    :param user: Airflow's user object
    :param name: its name, for the audit trail
    :param headers: `authorization` and `cookie` of the request
    """

    user: Any
    name: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A dag run.

    :param pk: grows with each run that is made
    :param conf: None where it was not asked for
    :param recorded: whether a step of it left a record, which it does after it has found the conf to be a job, or the
        job is its DAG's and was checked; False where that was not asked for
    :param authored_in: its workspace, where people wrote its DAG with `job_dag`; conf is then the job that the DAG
        holds, and its own does not count
    """

    pk: int
    dag_id: str
    run_id: str
    state: str
    run_after: datetime
    clear_number: int
    start_date: datetime | None = None
    end_date: datetime | None = None
    updated_at: datetime | None = None
    user: str | None = None
    conf: Mapping[str, Any] | None = None
    deleted: bool = False
    recorded: bool = False
    authored_in: str | None = None

    @property
    def workspace(self) -> str | None:
        """The workspace it belongs to; None for a run that can be no job."""
        return self.authored_in or names.workspace_of_dag(self.dag_id)

    @property
    def job_name(self) -> str | None:
        """The name of the job that it is; None when it is none."""
        if self.authored_in is not None:
            return authored.job_name(self.dag_id, self.run_id)
        return names.job_name_of(self.run_id)

    @property
    def key(self) -> str:
        """Run key."""
        return names.run_key(self.dag_id, self.run_id, self.run_after)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task instance."""

    task_id: str
    state: str | None
    max_tries: int
    start_date: datetime | None = None
    end_date: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything known of one run beside the run itself.

    :param tasks: task instances by task id
    :param values: state store, by (task id, key)
    :param marked_failed_by: who marked the run or a step of it in Airflow, if somebody did
    """

    tasks: Mapping[str, TaskRow] = field(default_factory=dict)
    values: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    marked_failed_by: str | None = None


class Gateway(Protocol):
    """Runs, task instances, state store, shapes, locks and permissions. Methods block unless they are async.

    Each raises `DatabaseAway` when the database is busy or away.
    """

    def allows(self, caller: Caller, right: Right, dag_id: str) -> bool:
        """Ask Airflow's auth manager."""

    def has_variable(self, key: str, workspace: str) -> bool:
        """Whether tasks of the workspace would find a value under this key of Airflow's Variables.

        :raises Unavailable: a secrets backend failed, and no other has it
        """

    def runs_named(self, workspace: str, name: str) -> Sequence[RunRow]:
        """Runs of this job name, in any shape; newest first, deleted ones too, with conf."""

    def runs_made_at(self, workspace: str, run_after: datetime) -> Sequence[RunRow]:
        """Runs of the workspace with exactly this `run_after`, deleted ones too, with conf."""

    def runs_of(self, workspace: str) -> Sequence[RunRow]:
        """All runs that are not deleted, newest first; of conf `source` and `project` alone, and `recorded`."""

    def with_conf(self, rows: Sequence[RunRow]) -> Sequence[RunRow]:
        """The same runs in the same order with their conf; those gone meanwhile are left out."""

    def states_of(self, rows: Sequence[RunRow]) -> Mapping[int, RunState]:
        """Task instances and state of runs, by `pk`."""

    def write_value(self, row: RunRow, task_ids: Collection[str], key: str, value: Any) -> None:
        """Write a state-store value of these task instances; it never expires."""

    def name_lock(self, workspace: str, name: str, shape: str | None = None) -> AbstractAsyncContextManager[None]:
        """Exclusive among all API servers until left, which does not fail.

        :param shape: a DAG id whose shape the sweep does not retire meanwhile
        :raises Unavailable: it could not be had in time
        """

    def has_shape(self, dag_id: str) -> bool:
        """Whether the shape is stored and Airflow can run its DAG."""

    async def ensure_shape(self, dag_id: str, value: str) -> None:
        """Store the shape and wait until Airflow can run its DAG.

        :raises Unavailable: too many shapes, or nobody parses DAG files
        """

    async def trigger(self, caller: Caller, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> RunRow:
        """Make a run.

        :raises Conflict: the run exists
        :raises NemoJobsError: Airflow refused; the text is Airflow's
        """

    async def answer(self, caller: Caller, row: RunRow, task_id: str, option: str, asked_at: datetime) -> None:
        """Answer the request of a parked task instance, which goes on then.

        :param asked_at: when that was asked for; the task heeds what was asked later
        :raises Conflict: it was answered already
        :raises NotFound: it has none
        """

    async def mark_failed(self, caller: Caller, row: RunRow) -> None:
        """Mark a run failed that has not started any step."""
