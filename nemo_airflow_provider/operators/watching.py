"""What operators share that watch work which goes on without them: SIGTERM, and ends in the words of Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from nemo_airflow_provider.errors import ConfigError, InvalidJob, Superseded
from nemo_airflow_provider.operators.host import TaskHost
from nemo_airflow_provider.runner import StepFailed, StepLeft, Wakeup

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Airflow comes back this long after a worker had to go.
_COME_BACK = timedelta(seconds=5)


class InvalidTask(InvalidJob, AirflowFailException):  # type: ignore[misc]
    """A task that cannot run as its author wrote it: an import error of the DAG file, or the end of a mapped task."""


class WatchingOperator(BaseOperator):  # type: ignore[misc]
    """An operator whose work outlives its process."""

    ui_color = "#76b900"
    ui_fgcolor = "#000000"

    def make_host(self, context: Context) -> TaskHost:
        """The task process as the runner sees it; `on_kill` wakes it."""
        self._wakeup = Wakeup()
        return TaskHost(context, self.log, self._wakeup)

    def on_kill(self) -> None:
        """Runs inside the signal handler: sets a flag and returns; whoever watches finds out why and acts."""
        wakeup = getattr(self, "_wakeup", None)
        if wakeup is not None:
            wakeup.set()


@contextmanager
def faults_told_of(dag: Any, task_id: str) -> Iterator[None]:
    """A block whose complaints about a task's parameters say of which task they are.

    :param dag: of the task; None where it has none yet
    :raises InvalidTask: for any `InvalidJob`
    """
    try:
        yield
    except InvalidJob as error:
        where = f"DAG '{dag.dag_id}', task" if dag is not None else "Task"
        raise InvalidTask(f"{where} '{task_id}': {error}") from None


@contextmanager
def ends_told_to_airflow(log: Any, what: str) -> Iterator[None]:
    """A block whose ends become those that Airflow knows: no retry for what is over, and another try for the rest.

    :param what: is run: `step` or `task`, for the message
    """
    try:
        yield
    except (StepFailed, InvalidJob, ConfigError) as error:
        raise AirflowFailException(str(error)) from None
    except StepLeft as error:
        log.warning("%s", error)
        raise AirflowRescheduleException(datetime.now(UTC) + _COME_BACK) from None
    except Superseded as error:
        log.warning("Another try of this %s has taken over: %s", what, error)
        raise AirflowFailException(f"superseded by another try of this {what}") from None
