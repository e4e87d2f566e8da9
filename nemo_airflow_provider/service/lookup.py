"""Finding a job by name or id, and its steps and tasks, with the contract's words when there is none."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_airflow_provider.errors import NotFound
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import TaskRecord
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.gateway import Gateway, RunRow
from nemo_airflow_provider.service.view import JobView, StepView, view_of


class Lookup:
    """Reads of one request; nothing it returns is hidden from the caller."""

    def __init__(self, gateway: Gateway, access: Access) -> None:
        self._gateway = gateway
        self._access = access

    def job(self, workspace: str, identifier: str) -> JobView:
        """A job by name, else by id.

        :raises NotFound: no such workspace or job, deleted, or not for this caller
        """
        self._access.enter(workspace)
        row = self._by_name(workspace, identifier) or self._by_id(workspace, identifier)
        if row is not None and self._access.visible([row.dag_id]):
            view = view_of(row, self._gateway.states_of([row])[row.pk])
            if view is not None:
                return view
        raise NotFound(f"Job '{identifier}' not found in workspace '{workspace}'.")

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
        views = (view_of(row, states[row.pk]) for row in full)
        return [view for view in views if view is not None]

    def _by_name(self, workspace: str, identifier: str) -> RunRow | None:
        if not names.is_name(identifier):
            return None
        rows = self._gateway.runs_named(workspace, names.run_id_of(identifier))
        return next((row for row in rows if not row.deleted), None)

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
            (row for row in rows if not row.deleted and names.run_key(row.dag_id, row.run_id, row.run_after) == key),
            None,
        )
