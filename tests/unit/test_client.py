from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.client import (
    ApiError,
    BadAnswer,
    CleartextToken,
    ClientError,
    ConnectionFailed,
    JobEnded,
    JobsClient,
    LogEnd,
    LogLines,
    StatusChanged,
    Unsendable,
    Waiting,
    Watch,
    WatchTimeout,
    WholeLog,
)
from nemo_airflow_provider.client.address import check_address
from nemo_airflow_provider.client.auth import expiry
from nemo_airflow_provider.client.transport import Transport
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, PROFILES, job, line, logs, page, status

JOB = f"{JOBS}/pz-1"
LOGS = f"{JOB}/logs"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(server: FakeServer, waits: list[float]) -> Iterator[JobsClient]:
    with JobsClient(transport=Transport(server.url, sleep=waits.append)) as opened:
        yield opened


class TestRetries:
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
    def test_what_may_pass_is_tried_again(
        self, server: FakeServer, client: JobsClient, waits: list[float], status: int
    ) -> None:
        server.on("GET", JOB, detail(status, "no"), detail(status, "no"), Answer(job()))
        assert client.get_job("pz-1") == job()
        assert waits == [0.5, 1.0]

    def test_twice_at_most(self, server: FakeServer, client: JobsClient, waits: list[float]) -> None:
        server.on("GET", JOB, detail(500, "no"))
        with pytest.raises(ApiError, match=r"^\(500\) no$"):
            client.get_job("pz-1")
        assert len(server.seen) == 3

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    def test_what_stays_is_not(self, server: FakeServer, client: JobsClient, status: int) -> None:
        server.on("GET", JOB, detail(status, "no"))
        with pytest.raises(ApiError):
            client.get_job("pz-1")
        assert len(server.seen) == 1

    @pytest.mark.parametrize(
        ("answer", "tries"),
        [
            (detail(500, "no"), 1),
            (detail(503, "no"), 1),
            (detail(409, "no"), 1),
            (Answer(hang_up=True), 1),
            (detail(429, "later"), 2),
            (detail(503, "no", x_should_retry="true"), 2),
        ],
    )
    def test_a_create_is_repeated_only_when_nothing_was_done(
        self, server: FakeServer, client: JobsClient, answer: Answer, tries: int
    ) -> None:
        server.on("POST", JOBS, answer, Answer(job(), 201))
        if tries == 1:
            with pytest.raises(ClientError):
                client.create_job({"source": "s"})
        else:
            assert client.create_job({"source": "s"}) == job()
        assert len(server.seen) == tries

    def test_a_read_survives_a_lost_connection(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", JOB, Answer(hang_up=True), Answer(job()))
        assert client.get_job("pz-1") == job()

    def test_the_server_decides(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", JOB, detail(500, "no", x_should_retry="false"))
        with pytest.raises(ApiError) as caught:
            client.get_job("pz-1")
        assert caught.value.retry is False
        assert len(server.seen) == 1

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"retry_after": "7"}, 7.0),
            ({"retry_after_ms": "250", "retry_after": "7"}, 0.25),
            ({"retry_after": "61"}, 0.5),
            ({"retry_after": "-1"}, 0.5),
            ({"retry_after": "soon"}, 0.5),
        ],
    )
    def test_when_the_server_says(
        self,
        server: FakeServer,
        client: JobsClient,
        waits: list[float],
        headers: dict[str, str],
        seconds: float,
    ) -> None:
        server.on("GET", JOB, detail(429, "later", **headers), Answer(job()))
        client.get_job("pz-1")
        assert waits == [seconds]

    def test_a_date_to_come_back_at(self, server: FakeServer, client: JobsClient, waits: list[float]) -> None:
        then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        server.on("GET", JOB, detail(503, "later", retry_after=then), Answer(job()))
        client.get_job("pz-1")
        assert 20 < waits[0] <= 30


class TestAddress:
    @pytest.mark.parametrize(
        "url", ["https://airflow.example", "http://localhost:1", "http://127.0.0.9", "http://[::1]:8080"]
    )
    def test_secrets_may_go_there(self, url: str) -> None:
        check_address(url, has_secret=True)

    @pytest.mark.parametrize("url", ["http://airflow.example", "http://10.0.0.1", "http://localhost.example"])
    def test_secrets_may_not_go_there(self, url: str) -> None:
        with pytest.raises(CleartextToken, match="cleartext remote endpoint"):
            check_address(url, has_secret=True)
        check_address(url, has_secret=False)

    def test_a_password_in_the_url_is_a_secret_and_is_not_shown(self) -> None:
        with pytest.raises(CleartextToken) as caught:
            check_address("http://user:pw@airflow.example", has_secret=False)
        assert "pw" not in str(caught.value)

    def test_a_redirect_takes_no_token_elsewhere(self, server: FakeServer) -> None:
        with FakeServer().running() as other:
            other.on("GET", JOB, Answer(job()))
            server.on("GET", JOB, Answer(status=307, headers={"location": f"{other.url}{JOB}"}))
            with JobsClient(server.url, token="t") as client:
                assert client.get_job("pz-1") == job()
            assert server.seen[0].headers["authorization"] == "Bearer t"
            assert "authorization" not in other.seen[0].headers

    def test_an_authority_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectionFailed, match="certificate authority .* cannot be read"):
            Transport("https://x", certificate_authority=str(tmp_path / "none.pem"))

    def test_https_behind_http_is_checked(self, server: FakeServer, client: JobsClient) -> None:
        # The other side speaks no TLS: that it is tried at all shows that the context for later use works.
        server.on("GET", JOB, Answer(status=307, headers={"location": server.url.replace("http", "https")}))
        with pytest.raises(ConnectionFailed, match="SSL"):
            client.get_job("pz-1")


@pytest.mark.parametrize("answer", [None, [], {}, {"name": 1}, {"name": "x"}])
def test_answers_that_do_not_fit(server: FakeServer, client: JobsClient, answer: Any) -> None:
    server.on("GET", f"{JOB}/status", Answer(answer)).on("GET", JOBS, Answer(answer))
    with pytest.raises(BadAnswer):
        client.get_job_status("pz-1")
    with pytest.raises(BadAnswer):
        client.list_jobs()
    if answer != []:
        server.on("GET", PROFILES, Answer(answer))
        with pytest.raises(BadAnswer):
            client.list_execution_profiles()


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.e30.c", "a.bnVsbA.c"])
def test_a_token_that_does_not_say_when_it_ends(token: str) -> None:
    assert expiry(token) is None


class GrowingLog:
    """Lines that become more; a cursor is the number of its first line, or of the line after its last if negative."""

    def __init__(self, limit: int) -> None:
        self.known = 0
        self.limit = limit
        self.refuse = False
        self.prefix = "m"

    def __call__(self, seen: Seen) -> Answer:
        if "tail" in seen.query:
            start = max(0, self.known - int(seen.query["tail"][0]))
            return self._page(start, self.known)
        cursor = seen.query.get("page_cursor")
        if cursor and self.refuse:
            self.refuse = False
            return detail(422, "Invalid page cursor")
        start = int(cursor[0]) if cursor else 0
        if start < 0:
            return self._page(max(0, -start - self.limit), -start)
        return self._page(start, min(start + self.limit, self.known))

    def _page(self, start: int, end: int) -> Answer:
        rows = [line(f"{self.prefix}{number}") for number in range(start, end)]
        following = str(end) if end < self.known else None
        previous = str(-start) if start else None
        return Answer(logs(*rows, next_page=following, prev_page=previous, total=self.known))


def messages(source: WholeLog | LogEnd) -> list[str]:
    return [row["message"] for rows in source.drain() for row in rows]


class TestLines:
    def test_each_line_once(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=3)
        server.on("GET", LOGS, log)
        source = WholeLog(client, "pz-1")
        for known in (0, 1, 1, 3, 4, 11, 11, 12):
            before, log.known = log.known, known
            assert messages(source) == [f"m{number}" for number in range(before, known)]

    def test_a_refused_cursor_starts_again_and_repeats_nothing(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=3)
        server.on("GET", LOGS, log)
        source = WholeLog(client, "pz-1")
        log.known = 8
        assert len(messages(source)) == 8
        log.known, log.refuse = 10, True
        assert messages(source) == ["m8", "m9"]

    @pytest.mark.parametrize(
        ("limit", "refuses", "lines"),
        [
            *((3, True, lines) for lines in (0, 3, 7, 8, 20)),  # told by the refused cursor
            *((3, False, lines) for lines in (0, 3, 7)),  # by the total
            *((100, False, lines) for lines in (0, 7, 8, 20)),  # by the first line, without any cursor
        ],
    )
    def test_the_log_of_another_attempt_is_given_from_its_first_line(
        self, server: FakeServer, client: JobsClient, limit: int, refuses: bool, lines: int
    ) -> None:
        log = GrowingLog(limit=limit)
        server.on("GET", LOGS, log)
        source = WholeLog(client, "pz-1", limit=limit)
        log.known = 8
        messages(source)
        log.known, log.refuse, log.prefix = lines, refuses, "n"
        assert messages(source) == [f"n{number}" for number in range(lines)]
        log.known += 1
        assert messages(source) == [f"n{lines}"]

    def test_a_log_is_read_a_thousand_lines_at_a_time(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", LOGS, Answer(logs()))
        messages(WholeLog(client, "pz-1"))
        assert server.seen[0].query == {"limit": ["1000"]}

    def test_the_end_of_a_log_that_was_read_in_part_goes_on(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=1000)
        server.on("GET", LOGS, log)
        source = LogEnd(client, "pz-1", lines=1)
        log.known = 1
        messages(source)
        log.known = 251
        drain = source.drain()
        given = [row["message"] for row in next(drain)]
        drain.close()
        assert 0 < len(given) < 250
        assert given + messages(source) == [f"m{number}" for number in range(1, 251)]

    def test_a_long_end_is_asked_for_as_servers_take_it(self, server: FakeServer, client: JobsClient) -> None:
        """They refuse a tail of more than 10,000 lines."""
        log = GrowingLog(limit=1000)
        server.on("GET", LOGS, log)
        log.known = 13_000
        assert messages(LogEnd(client, "pz-1", lines=11_500)) == [f"m{number}" for number in range(1500, 13_000)]
        assert [seen.query["tail"] for seen in server.seen if "tail" in seen.query] == [["10000"]]

    def test_another_refusal_is_an_error(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=3)
        server.on("GET", LOGS, log)
        source = WholeLog(client, "pz-1")
        log.known = 4
        messages(source)
        server.on("GET", LOGS, detail(422, "page_cursor does not match the current log filters."))
        with pytest.raises(ApiError):
            messages(source)

    def test_a_drain_that_broke_off_goes_on(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=2)
        log.known = 4
        server.on("GET", LOGS, log, detail(400, "no"), log)
        source = WholeLog(client, "pz-1")
        given: list[str] = []
        with pytest.raises(ApiError):
            for rows in source.drain():
                given += [row["message"] for row in rows]
        assert given + messages(source) == ["m0", "m1", "m2", "m3"]

    def test_the_end_of_another_attempt_is_new(self, server: FakeServer, client: JobsClient) -> None:
        log = GrowingLog(limit=100)
        server.on("GET", LOGS, log)
        source = LogEnd(client, "pz-1", lines=2)
        log.known = 5
        assert messages(source) == ["m3", "m4"]
        assert messages(source) == []
        log.known = 3
        assert messages(source) == ["m0", "m1", "m2"]


class TestWatch:
    def waits_of(self, watch: Watch) -> list[float]:
        return [round(event.seconds, 3) for event in watch.events() if isinstance(event, Waiting)]

    def test_it_looks_often_while_things_happen(self, server: FakeServer, client: JobsClient) -> None:
        quiet = [Answer(status(status="active"))] * 9
        server.on("GET", f"{JOB}/status", *quiet, Answer(status(status="pending")), Answer(status()))
        watch = Watch(client, "pz-1", sleep=lambda seconds: None)
        assert self.waits_of(watch) == [0.3, 0.45, 0.675, 1.012, 1.519, 2.278, 3.0, 3.0, 3.0, 0.3]

    def test_an_interval_given_is_kept(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", f"{JOB}/status", *[Answer(status(status="active"))] * 3, Answer(status()))
        watch = Watch(client, "pz-1", poll_interval_seconds=2, sleep=lambda seconds: None)
        assert self.waits_of(watch) == [2, 2, 2]

    def test_trouble_makes_it_wait_longer_each_time(self, server: FakeServer, client: JobsClient) -> None:
        away = detail(502, "away", x_should_retry="false")
        server.on("GET", f"{JOB}/status", *[away] * 7, Answer(status()))
        watch = Watch(client, "pz-1", sleep=lambda seconds: None)
        assert self.waits_of(watch) == [1, 2, 4, 8, 16, 30, 30]

    def test_the_timeout_counts_on_the_clock_given(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", f"{JOB}/status", Answer(status(status="active")))
        now = [0.0]

        def sleep(seconds: float) -> None:
            now[0] += seconds

        watch = Watch(client, "pz-1", poll_interval_seconds=4, timeout_seconds=10, clock=lambda: now[0], sleep=sleep)
        with pytest.raises(WatchTimeout, match="^Timed out watching job 'pz-1'$"):
            list(watch.events())
        assert now[0] == 10

    def test_lines_come_before_the_end(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", f"{JOB}/status", Answer(status()))
        server.on("GET", LOGS, Answer(logs(line("last"))))
        events = list(Watch(client, "pz-1", lines=WholeLog(client, "pz-1")).events())
        assert [type(event) for event in events[1:]] == [LogLines, JobEnded]

    def test_a_log_that_never_stops_hides_neither_status_nor_timeout(
        self, server: FakeServer, client: JobsClient
    ) -> None:
        now = [0.0]

        def talk(seen: Seen) -> Answer:
            now[0] += 0.5
            number = int(seen.query.get("page_cursor", ["0"])[0])
            return Answer(logs(line(f"m{number}"), next_page=str(number + 1), total=number + 2))

        server.on("GET", LOGS, talk)
        server.on("GET", f"{JOB}/status", Answer(status(status="pending")), Answer(status(status="active")))
        source = WholeLog(client, "pz-1")
        watch = Watch(
            client, "pz-1", lines=source, timeout_seconds=10, clock=lambda: now[0], sleep=lambda seconds: None
        )
        seen: list[str] = []
        with pytest.raises(WatchTimeout):
            for event in watch.events():
                if isinstance(event, StatusChanged):
                    seen.append(event.status["status"])
                elif isinstance(event, LogLines):
                    seen += [row["message"] for row in event.rows]
        assert [entry for entry in seen if entry.startswith("m")] == [f"m{number}" for number in range(20)]
        assert seen.index("active") <= 8

    def test_what_the_server_says_last_is_told_though_time_is_over(
        self, server: FakeServer, client: JobsClient
    ) -> None:
        now = [0.0]

        def late(_: Seen) -> Answer:
            now[0] = 11
            return detail(404, "gone")

        server.on("GET", f"{JOB}/status", late)
        with pytest.raises(ApiError, match="gone"):
            list(Watch(client, "pz-1", timeout_seconds=10, clock=lambda: now[0]).events())

    def test_an_error_that_stays_ends_it(self, server: FakeServer, client: JobsClient) -> None:
        server.on("GET", f"{JOB}/status", detail(403, "no"))
        with pytest.raises(ApiError):
            list(Watch(client, "pz-1").events())


@pytest.mark.parametrize("filter", ["x" * 100_000, "\u20ac" * 30_000])
def test_a_query_that_is_too_long_for_a_url(filter: str, server: FakeServer, client: JobsClient) -> None:
    with pytest.raises(Unsendable, match="^the request cannot be sent: .*URL"):
        client.list_jobs(filter=filter)
    assert server.seen == []


def test_a_base_url_with_a_control_character() -> None:
    with JobsClient("http://127.0.0.1:1/\x01") as client, pytest.raises(Unsendable, match="cannot be sent: .*URL"):
        client.list_jobs()


def test_pages_and_filters_travel(server: FakeServer, client: JobsClient) -> None:
    server.on("GET", JOBS, Answer(page(job())))
    client.list_jobs(filter={"status": ["a", "b"]}, page=2)
    assert server.seen[0].query == {"filter": ['{"status": ["a", "b"]}'], "page": ["2"]}
