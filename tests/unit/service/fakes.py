"""An Airflow in memory, for one workspace or several."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nemo_airflow_provider.errors import Conflict
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import (
    DELETED_KEY,
    STEP_KEY_PREFIX,
    STEP_RETRIES,
    StepRecord,
    TaskRecord,
    step_key,
)
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.away import DatabaseAway
from nemo_airflow_provider.service.gateway import Caller, Right, RunRow, RunState, TaskRow

START = datetime(2026, 12, 1, tzinfo=UTC)
ANN = Caller(user="ann", name="ann", headers={})


def spec_of(*steps: str, source: str = "test", project: str | None = None) -> JobSpec:
    """A job of subprocess steps."""
    executor = {"provider": "subprocess", "command": ["true"]}
    return JobSpec.model_validate(
        {
            "source": source,
            "project": project,
            "spec": {},
            "platform_spec": {"steps": [{"name": name, "executor": executor} for name in steps or ("train",)]},
        }
    )


def record(status: Status, at: datetime = START, **changes: Any) -> StepRecord:
    """What a runner left."""
    task = TaskRecord(name="task-0123456789ab", status=status, created_at=at, updated_at=at)
    return StepRecord(status=status, created_at=at, updated_at=at, tasks=[task], **changes)


class FakeGateway:
    """`Gateway` over lists.

    `retired` are shapes that go before their lock is had, `denied` holds (right, DAG id) pairs the caller does not
    have, `asked` those that were asked for, `held` the names locked now, `variables` the keys that have a value,
    `looked_up` those that were asked for, and `failing` which calls, counted from 0, find no database, and how that
    fails.
    """

    def __init__(self) -> None:
        self.rows: list[RunRow] = []
        self.states: dict[int, RunState] = {}
        self.shapes: dict[str, str] = {}
        self.retired: set[str] = set()
        self.denied: set[tuple[Right, str]] = set()
        self.marked: list[int] = []
        self.answers: list[tuple[str, str]] = []
        self.answered_for: list[datetime] = []
        self.asked: list[tuple[Right, str]] = []
        self.locked: list[str] = []
        self.held: set[str] = set()
        self.variables: set[str] = set()
        self.looked_up: list[str] = []
        self.failing: dict[str, tuple[range, DatabaseAway]] = {}
        self.calls: Counter[str] = Counter()

    def fail(self, call: str, *, after: int = 0, times: int = sys.maxsize, undone: bool = True) -> None:
        """Let a call find no database so many times, once it has succeeded so often."""
        error = DatabaseAway("Airflow's database was away.", undone=undone)
        self.failing[call] = range(after, min(after + times, sys.maxsize)), error
        self.calls[call] = 0

    def _reach(self, call: str) -> None:
        number = self.calls[call]
        self.calls[call] += 1
        if call in self.failing and number in self.failing[call][0]:
            raise self.failing[call][1]

    def add(self, name: str, spec: JobSpec | None = None, workspace: str = "default", **changes: Any) -> RunRow:
        """A run as Airflow holds it."""
        spec = spec or spec_of()
        pk = len(self.rows) + 1
        row = RunRow(
            pk=pk,
            dag_id=changes.pop("dag_id", names.shape_dag_id(workspace, spec.platform_spec.shape())),
            run_id=changes.pop("run_id", names.run_id_of(name)),
            state=changes.pop("state", "queued"),
            run_after=START + timedelta(seconds=pk),
            clear_number=changes.pop("clear_number", 0),
            conf=spec.model_dump(mode="json"),
            **changes,
        )
        self.rows.append(row)
        tasks = {
            names.task_id_of(step.name): TaskRow(names.task_id_of(step.name), None, STEP_RETRIES)
            for step in spec.platform_spec.steps
        }
        self.states[pk] = RunState(tasks=tasks)
        return row

    def step(self, row: RunRow, step: str, state: str | None, left: StepRecord | None = None, **changes: Any) -> None:
        """Set a task instance and what its runner left."""
        task_id = names.task_id_of(step)
        old = self.states[row.pk]
        task = replace(old.tasks[task_id], state=state, **changes)
        values = dict(old.values)
        if left is not None:
            values[task_id, step_key(task.max_tries - STEP_RETRIES)] = left.model_dump(mode="json")
        self.states[row.pk] = replace(old, tasks={**old.tasks, task_id: task}, values=values)

    def run_state(self, row: RunRow, state: str, **changes: Any) -> RunRow:
        """Set the run's state."""
        new = replace(row, state=state, **changes)
        self.rows[row.pk - 1] = new
        return new

    # --- Gateway ---

    def allows(self, caller: Caller, right: Right, dag_id: str) -> bool:
        self.asked.append((right, dag_id))
        return (right, dag_id) not in self.denied

    def has_variable(self, key: str, workspace: str) -> bool:
        self._reach("has_variable")
        self.looked_up.append(key)
        return key in self.variables

    def runs_named(self, workspace: str, name: str) -> Sequence[RunRow]:
        self._reach("runs_named")
        return [row for row in self._of(workspace) if row.job_name == name][::-1]

    def runs_made_at(self, workspace: str, run_after: datetime) -> Sequence[RunRow]:
        return [row for row in self._of(workspace) if row.run_after == run_after]

    def runs_of(self, workspace: str) -> Sequence[RunRow]:
        return [
            replace(
                row,
                conf={"source": row.conf.get("source"), "project": row.conf.get("project")} if row.conf else None,
                recorded=any(key.startswith(STEP_KEY_PREFIX) for _, key in self.states[row.pk].values),
            )
            for row in self._of(workspace)[::-1]
            if not row.deleted
        ]

    def with_conf(self, rows: Sequence[RunRow]) -> Sequence[RunRow]:
        return [self.rows[row.pk - 1] for row in rows]

    def states_of(self, rows: Sequence[RunRow]) -> Mapping[int, RunState]:
        self._reach("states_of")
        return {row.pk: self.states[row.pk] for row in rows}

    def write_value(self, row: RunRow, task_ids: Collection[str], key: str, value: Any) -> None:
        self._reach("write_value")
        if key == DELETED_KEY:
            self.rows[row.pk - 1] = replace(self.rows[row.pk - 1], deleted=True)
        old = self.states[row.pk]
        written = {(task_id, key): value for task_id in task_ids}
        self.states[row.pk] = replace(old, values={**old.values, **written})

    def name_lock(self, workspace: str, name: str, shape: str | None = None) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def lock() -> AsyncIterator[None]:
            self._reach("name_lock")
            assert name not in self.held, "two at once under one name's lock"
            self.locked.append(name)
            self.held.add(name)
            try:
                yield
            finally:
                self.held.remove(name)

        return lock()

    def has_shape(self, dag_id: str) -> bool:
        return dag_id in self.shapes and dag_id not in self.retired

    async def ensure_shape(self, dag_id: str, value: str) -> None:
        self._reach("ensure_shape")
        self.shapes[dag_id] = value

    async def trigger(self, caller: Caller, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> RunRow:
        if any((row.dag_id, row.run_id) == (dag_id, run_id) for row in self.rows):
            raise Conflict("the run exists")
        name = names.job_name_of(run_id)
        assert name in self.held, "a run is made under its name's lock"
        assert name is not None
        row = self.add(name, JobSpec.model_validate(conf), names.workspace_of_dag(dag_id) or "", run_id=run_id)
        self._reach("trigger")
        return replace(row, conf=conf)

    async def answer(self, caller: Caller, row: RunRow, task_id: str, option: str, asked_at: datetime) -> None:
        self._reach("answer")
        if self.states[row.pk].tasks[task_id].state != "awaiting_input":
            raise Conflict("answered")
        self.answers.append((task_id, option))
        self.answered_for.append(asked_at)
        self.step(row, names.step_name_of(task_id), "scheduled")

    async def mark_failed(self, caller: Caller, row: RunRow) -> None:
        self._reach("mark_failed")
        self.marked.append(row.pk)
        self.run_state(row, "failed")
        for task_id in self.states[row.pk].tasks:
            self.step(row, names.step_name_of(task_id), "skipped")

    def _of(self, workspace: str) -> list[RunRow]:
        return [row for row in self.rows if row.workspace == workspace]


class Time:
    """A clock that only `sleep` moves.

    :param meanwhile: what happens during each sleep
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()
