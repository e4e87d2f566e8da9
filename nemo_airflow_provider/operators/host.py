"""The task process as the runner sees it: state store, task log, SIGTERM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from airflow.sdk.execution_time.hitl import update_hitl_detail_response, upsert_hitl_detail
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded
from airflow.sdk.log import mask_secret

from nemo_airflow_provider.errors import Superseded, Unavailable
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.logline import LogLine
from nemo_airflow_provider.model.record import ASKED_AT, INTENT_KEY, now, parse_moment
from nemo_airflow_provider.model.status import OPTIONS, Action
from nemo_airflow_provider.runner import Answer, StoreUnavailable, Wakeup
from nemo_airflow_provider.variables import look_up

if TYPE_CHECKING:
    from airflow.sdk import Context

T = TypeVar("T")

#: Answers to a state-store write of a try that is archived.
_GONE = (404, 410)


def variable_value(key: str) -> str | None:
    """A Variable's value as the secrets backends of this task have it.

    :raises StoreUnavailable: one of them failed, and no other has it
    """
    try:
        return look_up(ensure_secrets_backend_loaded(), lambda backend: backend.get_variable(key=key))
    except Unavailable as error:
        raise StoreUnavailable(str(error)) from error


def sure_value(key: str, ask_store: Callable[[], object]) -> str | None:
    """A Variable's value; None only where it is certain that nobody has it.

    Airflow's last backend calls absent also what an API server or database that is away would have. The state store is
    behind both: once it answers, they are there, and what is still absent is.

    :param ask_store: reads something of the task's state store, and raises what is to be raised where that fails
    :raises StoreUnavailable: see `variable_value`
    """
    value = variable_value(key)
    if value is None:
        ask_store()
        value = variable_value(key)
    return value


class TaskHost:
    """`runner.StepHost` over Airflow's task context. Everything but `emit` belongs to the main thread."""

    def __init__(self, context: Context, log: Any, terminated: Wakeup) -> None:
        self._store = context["task_state_store"]
        self._instance = context["ti"]
        self._log = log
        self.terminated = terminated

    def load(self, key: str) -> Any | None:
        """A value of the state store; absent and archived look alike here, only `save` can tell."""
        return self._guarded(lambda: self._store.get(key))

    def save(self, key: str, value: Any) -> None:
        """Write a value that outlives Airflow's retention."""
        self._guarded(lambda: self._store.set(key, value, retention=NEVER_EXPIRE))

    def task_state(self) -> str | None:
        """Airflow's state of this task instance, asked of the API server."""
        instance = self._instance
        try:
            states = instance.get_task_states(
                dag_id=instance.dag_id,
                run_ids=[instance.run_id],
                task_ids=[instance.task_id],
                map_index=-1 if instance.map_index is None else instance.map_index,
            )
        except AirflowRuntimeError:
            return None
        # Of one task instance; a mapped one has its index in the key.
        state = next(iter(states.get(instance.run_id, {}).values()), None)
        return None if state is None else str(getattr(state, "value", state))

    def invite(self, subject: str, body: str) -> None:
        """A required action on Airflow's pages, which whoever may change the run can answer. It never runs out."""
        self._guarded(lambda: upsert_hitl_detail(self._instance.id, list(OPTIONS), subject, body, params={}))

    def withdraw(self) -> None:
        """Answer it ourselves: while the task runs an answer does nothing."""
        with suppress(AirflowRuntimeError):  # answered by somebody else meanwhile
            update_hitl_detail_response(self._instance.id, ["Resume"], {})

    def hand_on(self, key: str, value: str) -> None:
        """An XCom of this task instance, in Airflow's database whatever XCom backend is configured."""
        self._guarded(lambda: BaseXCom.set(key, value, **self._of(self._instance.task_id)))

    def handed(self, step: str, key: str) -> str | None:
        """An XCom of another step of the run."""
        value = self._guarded(lambda: BaseXCom.get_one(key=key, **self._of(names.task_id_of(step))))
        return value if isinstance(value, str) else None

    def _of(self, task_id: str) -> dict[str, Any]:
        return {"dag_id": self._instance.dag_id, "run_id": self._instance.run_id, "task_id": task_id, "map_index": -1}

    def variable(self, key: str) -> str | None:
        """The value of a Variable, through the secrets backends of this worker."""
        return sure_value(key, lambda: self.load(INTENT_KEY))

    def hide(self, texts: Sequence[str]) -> None:
        """Airflow hides them in this process and in the one that writes the log."""
        mask_secret(list(texts))

    def emit(self, line: LogLine) -> None:
        """One line of output in the task log, with its own time; `seq` keeps equal lines apart there."""
        level = self._log.warning if line.stream == "stderr" else self._log.info
        level(line.message, timestamp=line.timestamp, seq=line.seq)

    def note(self, text: str) -> None:
        """A sentence of ours in the task log."""
        self._log.info(text)

    @staticmethod
    def _guarded(call: Callable[[], T]) -> T:
        try:
            return call()
        except AirflowRuntimeError as error:
            detail = error.error.detail
            if isinstance(detail, dict) and detail.get("status_code") in _GONE:
                raise Superseded(str(error)) from error
            raise StoreUnavailable(str(error)) from error


def answer_of(event: Mapping[str, Any]) -> Answer:
    """What Airflow hands to a task whose request was answered."""
    chosen = next(iter(event.get("chosen_options") or ()), None)
    responded_at = event.get("responded_at")
    at = responded_at if isinstance(responded_at, datetime) else now()
    action = OPTIONS.get(chosen, Action.RESUME) if isinstance(chosen, str) else Action.RESUME
    # The jobs API waits before it answers, and a pause of that time must not be lost.
    asked_at = parse_moment((event.get("params_input") or {}).get(ASKED_AT))
    return Answer(action, min(at, asked_at or at))
