"""Finding a job by name or id, and its steps and tasks, with the contract's words when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from nemo_airflow_provider.errors import NotFound
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import TaskRecord, now
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.gateway import Gateway, Right, RunRow
from nemo_airflow_provider.service.stepview import StepView
from nemo_airflow_provider.service.view import JobView, spec_of, view_of


def holder_of(rows: Iterable[RunRow]) -> RunRow | None:
    """Of runs of one name the one that has it: the oldest that is not deleted.

    The jobs API makes no second run of a name. What somebody makes through Airflow's own door under a name that is
    taken is known by its id alone.
    """
    return min((row for row in rows if not row.deleted), key=lambda row: row.pk, default=None)


class Lookup:
    """Reads of one request; nothing it returns is hidden from the caller."""

    def __init__(self, gateway: Gateway, access: Access, clock: Callable[[], datetime] = now) -> None:
        self._gateway = gateway
        self._access = access
        self._clock = clock

    def job(self, workspace: str, identifier: str) -> JobView:
        """A job by name, else by id.

        :raises NotFound: no such workspace or job, deleted, or not for this caller
        """
        self._access.enter(workspace)
        view = self.find(workspace, identifier)
        if view is None:
            raise NotFound(f"Job '{identifier}' not found in workspace '{workspace}'.")
        return view

    def find(self, workspace: str, identifier: str) -> JobView | None:
        """As `job`, in a workspace that was entered; None when there is none."""
        row = self._by_name(workspace, identifier) or self._by_id(workspace, identifier)
        if row is None or not self._access.visible([row.dag_id]):
            return None
        view = view_of(row, self._gateway.states_of([row])[row.pk], self._clock())
        # Most jobs hold no output, and cost no question.
        if view is not None and view.holds_output and self._access.may(Right.READ_LOGS, workspace, row.dag_id):
            return replace(view, shows_output=True)
        return view

    def step(self, workspace: str, job: str, name: str) -> StepView:
        """A step of a job by name or id, once it has a row.

        :raises NotFound: see `job`; or no such step yet
        """
        for step in self.job(workspace, job).steps:
            if name in (step.spec.name, step.id):
                return step
        raise NotFound(f"Step '{name}' for job '{job}' not found in workspace '{workspace}'.")

    def task(self, workspace: str, job: str, step: str, name: str) -> tuple[StepView, TaskRecord]:
        """A task of a step by name or id.

        :raises NotFound: see `step`; or no such task
        """
        view = self.step(workspace, job, step)
        for row in view.tasks:
            if name in (row.name, names.task_id(view.job.key, row.name)):
                return view, row
        raise NotFound(f"Task '{name}' for step '{step}' of job '{job}' not found in workspace '{workspace}'.")

    def views(self, rows: Sequence[RunRow]) -> list[JobView]:
        """Views of runs that came without conf, in order; those that are no jobs are left out."""
        full = self._gateway.with_conf(rows)
        states = self._gateway.states_of(full)
        moment = self._clock()
        views = (view_of(row, states[row.pk], moment) for row in full)
        return [view for view in views if view is not None]

    def only_jobs(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Those of runs without conf that are jobs, so that what is counted is what can be shown.

        Only runs that never began are read. Airflow's state says nothing: people mark runs.
        """
        doubtful = self._gateway.with_conf([row for row in rows if not row.recorded])
        jobs = {row.pk for row in doubtful if spec_of(row) is not None}
        return [row for row in rows if row.recorded or row.pk in jobs]

    def _by_name(self, workspace: str, identifier: str) -> RunRow | None:
        if not names.is_name(identifier):
            return None
        return holder_of(self._gateway.runs_named(workspace, identifier))

    def _by_id(self, workspace: str, identifier: str) -> RunRow | None:
        key = names.run_key_of_job_id(identifier)
        if key is None:
            return None
        try:
            moment = names.run_after_of(key)
        except ValueError:
            return None
        rows = self._gateway.runs_made_at(workspace, moment)
        return next(
            (row for row in rows if not row.deleted and row.key == key),
            None,
        )
