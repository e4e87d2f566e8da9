"""The sweep's office: answers what becomes of what engines hold, and does the chores that need no engine.

Everything may be done twice, at once, or be killed in between (`docs/design/sweep.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from nemo_airflow_provider import installation
from nemo_airflow_provider.errors import Conflict
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import now
from nemo_airflow_provider.model.verdict import verdict_key
from nemo_airflow_provider.service import database, oldlogs, returning, sweeprows
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.locks import name_lock, shape_lock
from nemo_airflow_provider.service.standing import is_long_cancelled, standing_of, verdict_on
from nemo_airflow_provider.service.view import JobView, view_of
from nemo_airflow_provider.sweep import SWEEP_DAG_ID
from nemo_airflow_provider.sweep.leaving import left_for_next
from nemo_airflow_provider.sweep.office import AskedJob, Ending, Hold, JobStanding, WorkloadStanding

#: A shape without a job at work for so long is retired.
SHAPE_LIFE = timedelta(days=30)
#: Runs of the sweep itself that are kept for people to look at.
KEPT_RUNS = 100


class SweepOffice:
    """The office of one installation.

    :param storage: where logs and lock files are
    """

    def __init__(self, storage: Path, clock: Callable[[], datetime] = now) -> None:
        self._storage = storage
        self._clock = clock

    def admit(self, asker: str) -> None:
        """Check that who asks, this storage and this database belong together: what another installation keeps
        would look like leftovers here.

        :param asker: installation id of who asks
        :raises Conflict: they do not
        """
        ours = installation.installation_id(self._storage)
        if asker != ours:
            raise Conflict(
                f"Nothing is swept: the worker's [nemo] storage is another one (installation {asker}) than the API "
                f"server's (installation {ours}, {self._storage}). All parts of Airflow must share the directory."
            )
        stored = sweeprows.stored_installation()
        if stored is None:
            if installation.is_claimed(self._storage):
                raise Conflict(_another_text(self._storage, ours))
            sweeprows.store_installation(ours)
            stored = ours
        if stored != ours:
            raise Conflict(_another_text(self._storage, ours))
        installation.claim(self._storage)

    # --- what becomes of what engines hold ----------------------------------------------------------

    def standings(self, jobs: Sequence[AskedJob]) -> list[JobStanding]:
        """See `sweep.office.Office`."""
        moment = self._clock()
        runs = sweeprows.runs_with([job.run_key for job in jobs])
        views = self._views(list(runs.values()), moment)
        return [_standing(job, runs.get(job.run_key), views.get(job.run_key), moment) for job in jobs]

    def _views(self, rows: Sequence[RunRow], moment: datetime) -> dict[str, JobView]:
        """Jobs by run key; runs that are none, or cannot be read, are left out."""
        full = database.with_conf(rows)
        states = database.states_of(full)
        views: dict[str, JobView] = {}
        for row in full:
            with left_for_next(f"Run {row.run_id} of {row.dag_id}"):
                view = view_of(row, states[row.pk], moment)
                if view is not None:
                    views[view.key] = view
        return views

    async def settle(self, endings: Sequence[Ending]) -> int:
        """See `sweep.office.Office`. What cannot be written is told again by the next sweep."""
        settled = 0
        for run_key, group in groupby(endings, lambda ending: ending.run_key):
            told = list(group)
            with left_for_next(f"How the workloads of run {told[0].run_id} ended"):
                view = await run_in_threadpool(self._view, run_key)
                if view is not None:
                    async with name_lock(view.workspace, view.name, self._storage):
                        settled += await run_in_threadpool(self._write_verdicts, run_key, told)
        return settled

    def _view(self, run_key: str) -> JobView | None:
        """One job, unless it was deleted."""
        row = sweeprows.runs_with([run_key]).get(run_key)
        return None if row is None or row.deleted else self._views([row], self._clock()).get(run_key)

    def _write_verdicts(self, run_key: str, endings: Sequence[Ending]) -> int:
        """Under the job's lock: look again, and write what is still news."""
        view = self._view(run_key)
        if view is None:
            return 0
        written = 0
        for ending in endings:
            step = next((step for step in view.all_steps if step.spec.name == ending.step), None)
            verdict = verdict_on(step, ending) if step else None
            if verdict is not None:
                key, value = verdict_key(ending.generation), verdict.model_dump(mode="json")
                database.write_value(view.run, [names.task_id_of(ending.step)], key, value)
                written += 1
        return written

    # --- chores ---------------------------------------------------------------------------------------

    async def chores(self, *, thorough: bool = False) -> Mapping[str, int]:
        """See `sweep.office.Office`. One that fails does not keep the others from being done.

        :param thorough: do now also what is else done from time to time
        """
        done: dict[str, int] = {}
        with left_for_next("A chore (cancels)"):
            done["cancels_ended"] = await self._end_cancels()
        todo: dict[str, Callable[[], int]] = {
            "runs_removed": lambda: sweeprows.remove_deleted_runs(self._clock()),
            "sweeps_removed": lambda: sweeprows.remove_old_runs(SWEEP_DAG_ID, self._clock(), KEPT_RUNS),
            "shapes_retired": self._retire_shapes,
            "shapes_restored": returning.restore_shapes,
            "dags_removed": self._remove_dags,
        }
        if thorough or oldlogs.is_due(self._storage, self._clock()):
            todo["logs_removed"] = lambda: oldlogs.remove_logs(self._storage, self._clock())  # the longest, so the last
        for name, chore in todo.items():
            with left_for_next(f"A chore ({name.replace('_', ' ')})"):
                done[name] = await run_in_threadpool(chore)
        return {name: count for name, count in done.items() if count}

    async def _end_cancels(self) -> int:
        """Mark runs failed whose cancel nobody has obeyed."""
        ended = 0
        for view in await run_in_threadpool(self._asked):
            with left_for_next(f"The cancelled job '{view.name}' of workspace '{view.workspace}'"):
                if not is_long_cancelled(view):
                    continue
                async with name_lock(view.workspace, view.name, self._storage):
                    ended += await run_in_threadpool(self._end_cancel, view.key)
        return ended

    def _asked(self) -> list[JobView]:
        """Jobs that are not over and of which something was asked."""
        rows = [row for row in sweeprows.unfinished_with_intent() if not row.deleted]
        return list(self._views(rows, self._clock()).values())

    def _end_cancel(self, run_key: str) -> bool:
        """Under the job's lock: look again, and end the run if its cancel still stands."""
        view = self._view(run_key)
        return view is not None and is_long_cancelled(view) and sweeprows.mark_failed(view.run)

    def _retire_shapes(self) -> int:
        since = self._clock() - SHAPE_LIFE
        return sum(
            self._alone(dag_id, lambda each: sweeprows.retire_shape(each, since))
            for dag_id in sweeprows.unused_shapes(since)
        )

    def _remove_dags(self) -> int:
        return sum(self._alone(dag_id, sweeprows.remove_stale_dag) for dag_id in sweeprows.stale_dags())

    def _alone(self, dag_id: str, change: Callable[[str], bool]) -> bool:
        """Change a shape unless a job of it is just being made."""
        changed = False
        with left_for_next(f"The DAG {dag_id}"), shape_lock(dag_id, self._storage) as mine:
            changed = mine and change(dag_id)
        return changed


def _standing(asked: AskedJob, row: RunRow | None, view: JobView | None, moment: datetime) -> JobStanding:
    """What becomes of a job; one that cannot be judged is left alone."""
    with left_for_next(f"Run {asked.run_id} of workspace '{asked.workspace}'"):
        return standing_of(asked, row, view, moment)
    return JobStanding(hold=Hold.LIVE, workloads=[WorkloadStanding(hold=Hold.LIVE)] * len(asked.workloads))


def _another_text(storage: Path, ours: str) -> str:
    return (
        f"Nothing is swept: {storage} (installation {ours}) belongs to another installation than this database, and "
        "what it holds of that one would be removed. Give this Airflow a [nemo] storage of its own. If its database "
        f"was made anew, remove {storage}/installation, {storage}/installation.claimed and the Variable "
        f"{sweeprows.INSTALLATION_VARIABLE}."
    )
