"""New lines of a job's log, each exactly once, however often one asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from nemo_airflow_provider.client.errors import ApiError
from nemo_airflow_provider.client.jobs import EVERY_LINE, JobsClient, LogFilter
from nemo_airflow_provider.client.pages import following
from nemo_airflow_provider.client.position import LogPosition, Page
from nemo_airflow_provider.client.transport import JsonObject

#: Few requests for a long log, and one answer is not felt on the way.
PAGE_LINES = 1000
_TAIL_WINDOW_LINES = 100
#: Servers refuse to give more at once.
_MOST_TAIL_LINES = 10_000


class LineSource(Protocol):
    """Where a watch takes its lines from."""

    def drain(self) -> Iterator[list[JsonObject]]:
        """What is new since the last drain, oldest first.

        A drain that is cut short, by an error or by its reader, goes on the next time.
        """


class WholeLog:
    """The log from its first line on, or from where an earlier reader was.

    The server's last page has no next one, but its cursor stays valid and the page grows at its end. So the last
    page is read again, and the lines of it that were given before are left out; see `LogPosition`.

    When the job is run again, its log is another one and begins anew. The server then refuses the cursor, has fewer
    lines than were given, or has another first line.

    :param limit: lines of a page; the same as that of the reader whose position is given
    :param position: where to begin
    """

    def __init__(
        self,
        client: JobsClient,
        name: str,
        *,
        workspace: str | None = None,
        which: LogFilter = EVERY_LINE,
        limit: int = PAGE_LINES,
        position: LogPosition | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._workspace = workspace
        self._which = which
        self._limit = limit
        self._may_begin_anew = True
        #: After the lines that were given last.
        self.position = position or LogPosition()
        #: Lines of the whole log at the last look.
        self.total = 0

    def drain(self) -> Iterator[list[JsonObject]]:
        """See `LineSource`."""
        # Once, or a server that contradicts itself would be asked for ever.
        self._may_begin_anew = True
        while True:
            page = self._page()
            fresh = self.position.fresh(page.rows, page.marks)
            self.position = self._after(page, len(fresh))
            if fresh:
                yield fresh
            if page.is_last:
                return

    def _after(self, page: Page, fresh: int) -> LogPosition:
        position = replace(self.position, given=self.position.given + fresh)
        if page.is_last:
            return replace(position, skip=max(position.skip, len(page.rows)), marks=page.marks)
        return replace(
            position,
            cursor=following(page.content, "next_page", position.cursor),
            skip=max(0, position.skip - len(page.rows)),
            marks=(),
            before=page.marks,
        )

    def _page(self) -> Page:
        try:
            page = self._read()
        except ApiError as error:
            if self.position.cursor is None or not self._may_begin_anew or not _cursor_refused(error):
                raise
            page = self._read_anew()
        total = page.content.get("total")
        is_later = self.position.cursor is not None
        if is_later and self._may_begin_anew and isinstance(total, int) and total < self.position.given:
            page = self._read_anew()
        if self.position.cursor is None:
            self._recognise(page)
        self.total = max(page.content.get("total") or 0, self.position.given)
        return page

    def _read_anew(self) -> Page:
        """From the first line on; those that were given are known by their number."""
        self._may_begin_anew = False
        given = self.position.given
        self.position = LogPosition(skip=given, given=given, first=self.position.first)
        return self._read()

    def _recognise(self, page: Page) -> None:
        """Whether the first page is still that of the log that was given so far."""
        if self.position.given and self.position.first not in page.marks:
            self.position = LogPosition()
        if not self.position.given and page.marks:
            self.position = replace(self.position, first=page.marks[0])

    def _read(self) -> Page:
        return Page(
            self._client.get_logs(
                self._name,
                workspace=self._workspace,
                which=self._which,
                limit=self._limit,
                page_cursor=self.position.cursor,
            )
        )


class LogEnd:
    """The last lines of the log, then what comes after them.

    A tail window has no cursor forward, so its end is known by the total: what the total grew by is new. The cost
    of a drain is that of the new lines, not of the log.

    :param lines: how many of the lines that are there already
    """

    def __init__(
        self,
        client: JobsClient,
        name: str,
        *,
        lines: int,
        workspace: str | None = None,
        which: LogFilter = EVERY_LINE,
    ) -> None:
        self._client = client
        self._name = name
        self._lines = lines
        self._workspace = workspace
        self._which = which
        self._total: int | None = None

    def drain(self) -> Iterator[list[JsonObject]]:
        """See `LineSource`."""
        window = min(self._lines, _MOST_TAIL_LINES) if self._total is None else _TAIL_WINDOW_LINES
        page = self._client.get_logs(self._name, workspace=self._workspace, which=self._which, tail=window)
        total = page.get("total") or 0
        if self._total is None:
            wanted = self._lines
        elif total >= self._total:
            wanted = total - self._total
        else:
            wanted = total  # Another attempt has begun: all of its log is new.
        chunks = self._backwards(page, wanted)
        self._total = total - sum(map(len, chunks))
        for rows in reversed(chunks):
            self._total += len(rows)
            yield rows

    def _backwards(self, page: JsonObject, wanted: int) -> list[list[JsonObject]]:
        """The last `wanted` lines from `page` back, newest chunk first."""
        chunks: list[list[JsonObject]] = []
        cursor: str | None = None
        while True:
            rows = page["data"][-wanted:] if wanted > 0 else []
            if rows:
                chunks.append(rows)
            wanted -= len(rows)
            if wanted <= 0 or not page.get("prev_page"):
                return chunks
            cursor = following(page, "prev_page", cursor)
            page = self._client.get_logs(
                self._name,
                workspace=self._workspace,
                which=self._which,
                limit=PAGE_LINES,
                page_cursor=cursor,
            )


def _cursor_refused(error: ApiError) -> bool:
    """Whether the server cannot read the cursor any more, in any of the ways of saying so."""
    if error.status != 422:
        return False
    detail = error.detail
    if isinstance(detail, dict):
        inner = detail.get("error", detail)
        return isinstance(inner, dict) and inner.get("code") == "invalid_page_cursor"
    return bool(detail == "Invalid page cursor")
