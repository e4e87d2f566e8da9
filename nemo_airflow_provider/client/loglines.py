"""New lines of a job's log, each exactly once, however often one asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from nemo_airflow_provider.client.errors import ApiError
from nemo_airflow_provider.client.jobs import EVERY_LINE, JobsClient, LogFilter
from nemo_airflow_provider.client.pages import following
from nemo_airflow_provider.client.transport import JsonObject

#: Few requests for a long log, and one answer is not felt on the way.
PAGE_LINES = 1000
_TAIL_WINDOW_LINES = 100


class LineSource(Protocol):
    """Where a watch takes its lines from."""

    def drain(self) -> Iterator[list[JsonObject]]:
        """What is new since the last drain, oldest first.

        A drain that is cut short, by an error or by its reader, goes on the next time.
        """


class WholeLog:
    """The log from its first line on.

    The server's last page has no next one, but its cursor stays valid and the page grows at its end. So the last
    page is read again, and the lines of it that were given before are left out by their number.

    When the job is run again, its log is another one and begins anew. The server then refuses the cursor, has fewer
    lines than were given, or has another first line.

    :param limit: lines of a page
    """

    def __init__(
        self,
        client: JobsClient,
        name: str,
        *,
        workspace: str | None = None,
        which: LogFilter = EVERY_LINE,
        limit: int = PAGE_LINES,
    ) -> None:
        self._client = client
        self._name = name
        self._workspace = workspace
        self._which = which
        self._limit = limit
        self._first: JsonObject | None = None
        self._may_begin_anew = True
        self._begin(given=0)

    def _begin(self, *, given: int) -> None:
        """Read from the first line on; the first `given` are known."""
        self._cursor: str | None = None
        self._skip = self._given = given

    def drain(self) -> Iterator[list[JsonObject]]:
        """See `LineSource`."""
        # Once, or a server that contradicts itself would be asked for ever.
        self._may_begin_anew = True
        while True:
            page = self._page()
            rows = page["data"]
            fresh = rows[self._skip :]
            is_last = page.get("next_page") is None
            if is_last:
                self._skip = max(self._skip, len(rows))
            else:
                self._cursor = following(page, "next_page", self._cursor)
                self._skip = max(0, self._skip - len(rows))
            self._given += len(fresh)
            if fresh:
                yield fresh
            if is_last:
                return

    def _page(self) -> JsonObject:
        try:
            page = self._read()
        except ApiError as error:
            if self._cursor is None or not self._may_begin_anew or not _cursor_refused(error):
                raise
            page = self._read_anew()
        total = page.get("total")
        if self._cursor is not None and self._may_begin_anew and isinstance(total, int) and total < self._given:
            page = self._read_anew()
        if self._cursor is None:
            self._recognise(page)
        return page

    def _read_anew(self) -> JsonObject:
        self._may_begin_anew = False
        self._begin(given=self._given)
        return self._read()

    def _recognise(self, page: JsonObject) -> None:
        """Whether the first page is still that of the log that was given so far."""
        first = page["data"][0] if page["data"] else None
        if self._given and first != self._first:
            self._begin(given=0)
        self._first = first

    def _read(self) -> JsonObject:
        return self._client.get_logs(
            self._name,
            workspace=self._workspace,
            which=self._which,
            limit=self._limit,
            page_cursor=self._cursor,
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
        window = self._lines if self._total is None else _TAIL_WINDOW_LINES
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
