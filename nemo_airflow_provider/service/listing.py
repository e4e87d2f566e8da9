"""Lists: filter first, then count, then page (contract §3.2), so that pages are full and totals true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service import render
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.filters import Filter, sorted_records
from nemo_airflow_provider.service.gateway import Gateway, RunRow
from nemo_airflow_provider.service.lookup import Lookup, holder_of
from nemo_airflow_provider.service.view import JobView

T = TypeVar("T")

#: Larger pages are cut to this, and `pagination.page_size` says so (contract/choices).
MAX_PAGE_SIZE = 1000

ALL = "-"

#: As many jobs as are asked for one by one; more are looked for among all of the workspace.
_FEW = 5


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page, in which order.

    :param page: from 1
    :param size: rows a page
    :param sort: field name, descending with `-` before it
    """

    page: int
    size: int
    sort: str


def page_of(rows: Sequence[T], request: PageRequest, show: Callable[[Sequence[T]], list[Any]]) -> dict[str, Any]:
    """One page of rows as the wire's list object.

    :param show: renders the rows of the page only
    """
    size = min(request.size, MAX_PAGE_SIZE)
    first = (request.page - 1) * size
    data = show(rows[first : first + size])
    return {
        "data": data,
        "pagination": {
            "page": request.page,
            "page_size": size,
            "current_page_size": len(data),
            "total_pages": max(1, -(-len(rows) // size)),
            "total_results": len(rows),
        },
        "sort": request.sort,
    }


class Listing:
    """The lists of one request."""

    def __init__(self, gateway: Gateway, access: Access, workspaces: Sequence[str]) -> None:
        self._gateway = gateway
        self._access = access
        self._workspaces = workspaces
        self._lookup = Lookup(gateway, access)

    def jobs(self, workspace: str, request: PageRequest, asked: Filter | None) -> dict[str, Any]:
        """A page of jobs.

        :param workspace: a workspace, or `-` for all that the caller may read
        :raises NotFound: unknown workspace
        """
        rows = self._rows(workspace)
        needs_view = asked is not None and asked.fields & {"status", "updated_at"}
        if needs_view or request.sort.endswith("updated_at"):
            views = self._lookup.views(rows)
            chosen = _chosen([(view, _record_of_view(view)) for view in views], request, asked)
            return _echo(page_of(chosen, request, _show), asked)
        chosen_rows = _chosen([(row, _record_of_row(row)) for row in rows], request, asked)
        jobs = self._lookup.only_jobs(chosen_rows)
        return _echo(page_of(jobs, request, lambda part: _show(self._lookup.views(part))), asked)

    def steps(self, workspace: str, job: str, request: PageRequest, asked: StepFilter) -> dict[str, Any]:
        """A page of steps of one job, or of all jobs (`-`). An unknown job has none.

        :raises NotFound: unknown workspace
        """
        named = asked.jobs if job == ALL else (job,)
        views = self._named(workspace, named) if named else self._lookup.views(self._rows(workspace))
        matches = asked.matcher()
        steps = [step for view in views for step in view.steps if matches(view, step.status)]
        field = request.sort.lstrip("-")
        steps.sort(key=lambda step: getattr(step, field), reverse=request.sort.startswith("-"))
        page = page_of(steps, request, lambda part: [render.step_with_context(step) for step in part])
        echo = asked.echo(None if job == ALL else job)
        return {**page, "filter": echo} if echo else page

    def _entered(self, workspace: str) -> list[str]:
        if workspace == ALL:
            return [name for name in self._workspaces if self._access.readable(name)]
        self._access.enter(workspace)
        return [workspace]

    def _named(self, workspace: str, identifiers: Sequence[str]) -> list[JobView]:
        """Each job once, though it may be asked for by name and by id."""
        if len(identifiers) > _FEW:
            return self._among(workspace, frozenset(identifiers))
        places = self._entered(workspace)
        found = (self._lookup.find(place, identifier) for place in places for identifier in identifiers)
        return list({view.key: view for view in found if view is not None}.values())

    def _among(self, workspace: str, identifiers: Set[str]) -> list[JobView]:
        """The same for many: out of one reading of the workspace instead of one for each."""
        found: dict[int, RunRow] = {}
        for place in self._entered(workspace):
            by_name: dict[str | None, list[RunRow]] = defaultdict(list)
            for row in self._gateway.runs_of(place):
                name, identifier = _identifiers(row)
                by_name[name].append(row)
                if identifier in identifiers:
                    found[row.pk] = row
            holders = (holder_of(rows) for name, rows in by_name.items() if name in identifiers)
            found |= {row.pk: row for row in holders if row is not None}
        visible = self._access.visible(row.dag_id for row in found.values())
        return self._lookup.views([row for row in found.values() if row.dag_id in visible])

    def _rows(self, workspace: str) -> list[RunRow]:
        rows = [row for name in self._entered(workspace) for row in self._gateway.runs_of(name)]
        visible = self._access.visible(row.dag_id for row in rows)
        return [row for row in rows if row.dag_id in visible and row.job_name]


@dataclass(frozen=True, slots=True)
class StepFilter:
    """Filter of the steps list: empty tuples ask nothing.

    :param pending: whether a task's cleanup is pending; ours never is
    """

    jobs: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    sources: tuple[str, ...] = ()
    pending: bool | None = None

    def matcher(self) -> Callable[[JobView, Status], bool]:
        """Tells whether a step of a job and with a status is wanted."""
        jobs, statuses, sources = frozenset(self.jobs), frozenset(self.statuses), frozenset(self.sources)

        def matches(view: JobView, status: Status) -> bool:
            return (
                not self.pending
                and (not jobs or not jobs.isdisjoint((ALL, view.name, view.id)))
                and (not statuses or status in statuses)
                and (not sources or view.spec.source in sources)
            )

        return matches

    def echo(self, job: str | None) -> dict[str, Any]:
        """What the answer's `filter` shows."""
        shown: dict[str, Any] = {}
        if job or self.jobs:
            shown["job"] = job or ",".join(self.jobs)
        if self.statuses:
            shown["status"] = ",".join(self.statuses)
        if self.sources:
            shown["source"] = ",".join(self.sources)
        if self.pending is not None:
            shown["task_cleanup_pending"] = self.pending
        return shown


def _chosen(pairs: list[tuple[T, dict[str, Any]]], request: PageRequest, asked: Filter | None) -> list[T]:
    records: list[Mapping[str, Any]] = [
        {**record, "item": item} for item, record in pairs if asked is None or asked.matches(record)
    ]
    return [record["item"] for record in sorted_records(records, request.sort)]


def _identifiers(row: RunRow) -> tuple[str | None, str]:
    """Name and id of the job that a run is; no name when it is none."""
    return row.job_name, names.job_id(row.key)


def _record_of_row(row: RunRow) -> dict[str, Any]:
    conf = row.conf or {}
    name, identifier = _identifiers(row)
    return {
        "id": identifier,
        "name": name,
        "workspace": row.workspace,
        "project": conf.get("project"),
        "source": conf.get("source"),
        "created_at": row.run_after,
    }


def _record_of_view(view: JobView) -> dict[str, Any]:
    return {
        **_record_of_row(view.run),
        "status": str(view.status),
        "updated_at": view.updated_at,
    }


def _show(views: Sequence[JobView]) -> list[Any]:
    return [render.without_nulls(render.job(view)) for view in views]


def _echo(page: dict[str, Any], asked: Filter | None) -> dict[str, Any]:
    return {**page, "filter": dict(asked.normal)} if asked else page
