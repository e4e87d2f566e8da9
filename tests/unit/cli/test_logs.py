from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from nemo_airflow_provider.cli.progress import WatchView
from nemo_airflow_provider.cli.terminal import Terminal
from nemo_airflow_provider.client.watch import Event, StatusChanged, WatchTimeout
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, line, logs, status

LOGS = f"{JOBS}/pz-1/logs"
STATUS = f"{JOBS}/pz-1/status"


def shown(message: str, second: int = 0) -> str:
    """A line as `tail` and `watch` print it two hours east of UTC."""
    return f"[12:47:{second:02d}] s-one/task-c5cb00000000 | {message}\n"


class TestGetLogs:
    def test_a_page(self, server: FakeServer, nemo: Nemo) -> None:
        page = logs(line("hi"), next_page="c2", total=2)
        server.on("GET", LOGS, Answer(page))
        result = nemo("jobs", "get-logs", "pz-1", "--limit", "1", "--attempt-id", "current", "--step-id", "s")
        assert json.loads(result.out) == page
        assert "--all-pages" in result.err
        assert server.seen[0].query == {"limit": ["1"], "attempt_id": ["current"], "step_id": ["s"]}

    def test_columns(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", LOGS, Answer(logs(line("hi"))))
        assert nemo("jobs", "get-logs", "pz-1", "-f", "csv").out == (
            "timestamp,message\n2026-12-01T10:47:00.000000+00:00,hi\n"
        )

    def test_all_pages(self, server: FakeServer, nemo: Nemo) -> None:
        def answer(seen: Seen) -> Answer:
            cursor = seen.query.get("page_cursor", ["c1"])[0]
            return Answer(logs(line(cursor), next_page={"c1": "c2"}.get(cursor), total=2))

        server.on("GET", LOGS, answer)
        options = ("jobs", "get-logs", "pz-1", "--all-pages", "--limit", "1")
        assert json.loads(nemo(*options).out) == {"data": [line("c1"), line("c2")], "next_page": None}
        assert all(seen.query["limit"] == ["1"] for seen in server.seen)
        assert nemo(*options, "--stream").out == "".join(
            json.dumps(line(message), separators=(",", ":")) + "\n" for message in ("c1", "c2")
        )

    def test_code_names_the_filter(self, nemo: Nemo) -> None:
        out = nemo("jobs", "get-logs", "pz-1", "--step-id", "s", "-f", "code").out
        assert "from nemo_airflow_provider.client import JobsClient, LogFilter\n" in out
        assert "which=LogFilter(attempt_id=None, step_id='s', task_id=None)" in out


class TestTail:
    def test_lines_in_local_time(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", LOGS, Answer(logs(line("hi"), line("there", 1))))
        result = nemo("jobs", "tail", "pz-1", "-n", "2", "--attempt-id", "3")
        assert result.out == shown("hi") + shown("there", 1)
        assert server.seen[0].query == {"tail": ["2"], "attempt_id": ["3"]}

    def test_no_lines_no_output(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", LOGS, Answer(logs()))
        result = nemo("jobs", "tail", "pz-1")
        assert (result.out, result.err, result.code) == ("", "", 0)

    @pytest.mark.parametrize("lines", ["0", "10001"])
    def test_the_range_of_lines(self, nemo: Nemo, lines: str) -> None:
        result = nemo("jobs", "tail", "pz-1", "-n", lines)
        assert result.err.splitlines()[0] == (
            f"Error: Invalid value for '-n' / '--lines': {lines} is not in the range 1<=x<=10000."
        )
        assert result.code == 2

    def test_an_unknown_job(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", LOGS, detail(404, "Job 'pz-1' not found in workspace 'default'."))
        result = nemo("jobs", "tail", "pz-1")
        assert result.err.startswith("Not found: (404) Job 'pz-1' not found in workspace 'default'.\n")
        assert result.code == 3

    def test_following_goes_on_to_the_end_and_repeats_nothing(self, server: FakeServer, nemo: Nemo) -> None:
        rows = [line(f"m{number}", number % 60) for number in range(400)]
        known = iter([2, 3, 3, 390, 400])

        def tail_of(seen: Seen) -> Answer:
            if cursor := seen.query.get("page_cursor"):
                end, limit = int(cursor[0]), int(seen.query["limit"][0])
            else:
                end, limit = next(known), int(seen.query["tail"][0])
            start = max(0, end - limit)
            previous = str(start) if start else None
            return Answer(logs(*rows[start:end], prev_page=previous, total=end))

        server.on("GET", LOGS, tail_of)
        server.on("GET", STATUS, *(Answer(status(status=s)) for s in ["active"] * 3 + ["paused", "error"]))
        result = nemo("jobs", "tail", "pz-1", "-n", "1", "--follow")
        assert result.out == "".join(shown(row["message"], i % 60) for i, row in enumerate(rows) if i >= 1)
        assert (result.err, result.code) == ("", 0)

    def test_ctrl_c_ends_it_quietly(self, server: FakeServer, nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
        server.on("GET", LOGS, Answer(logs(line("hi"))))
        server.on("GET", STATUS, Answer(status(status="active")))
        result = nemo("jobs", "tail", "pz-1", "-F", sleep=interrupt_at(2))
        assert (result.out, result.err, result.code) == (shown("hi"), "", 130)


class TestWatch:
    def test_to_a_good_end(self, server: FakeServer, nemo: Nemo) -> None:
        details = {"message": "ok", "empty": "", "nothing": None, "deep": {"a": 1}, "exit_code": 0}
        details = {"pid": 12, "pgid": 12, "work_dir": "/w", "log_path": "/w/log"} | details
        server.on(
            "GET",
            STATUS,
            Answer(status(status="active")),
            Answer(status(status="active")),
            Answer(status(status_details=details)),
        )
        growing: Iterator[int] = iter([1, 2, 3])

        def grow(seen: Seen) -> Answer:
            return Answer(logs(*(line(f"m{n}", n) for n in range(next(growing)))))

        server.on("GET", LOGS, grow)
        result = nemo("jobs", "watch", "pz-1")
        lines = [text.split("] ", 1)[-1] for text in result.out.splitlines()]
        assert lines == [
            "Status: active",
            "s-one/task-c5cb00000000 | m0",
            "s-one/task-c5cb00000000 | m1",
            "s-one/task-c5cb00000000 | m2",
            "Status: completed message=ok exit_code=0",
            "Job 'pz-1' completed",
        ]
        assert (result.err, result.code) == ("", 0)

    @pytest.mark.parametrize("last", ["error", "cancelled", "paused"])
    def test_to_a_bad_end(self, server: FakeServer, nemo: Nemo, last: str) -> None:
        server.on("GET", STATUS, Answer(status(status=last, error_details={"message": "exit 3"})))
        server.on("GET", LOGS, Answer(logs(line("last words"))))
        result = nemo("jobs", "watch", "pz-1")
        assert [text.split("] ", 1)[-1] for text in result.out.splitlines()] == [
            "s-one/task-c5cb00000000 | last words",
            f"Status: {last}",
            f"Job 'pz-1' ended with status '{last}': message=exit 3",
        ]
        assert result.code == 1

    def test_an_end_that_was_none_is_shown_in_its_place(self, server: FakeServer, nemo: Nemo) -> None:
        """It is resumed before its lines could be read."""
        server.on("GET", STATUS, *(Answer(status(status=s)) for s in ("paused", "active", "completed")))
        server.on("GET", LOGS, detail(500, "broken", x_should_retry="false"), Answer(logs(line("hi"))))
        shown_lines = nemo("jobs", "watch", "pz-1").out.splitlines()
        assert [text.split("] ", 1)[-1] for text in shown_lines if "Status" in text] == [
            "Status: paused",
            "Status: active",
            "Status: completed",
        ]

    def test_the_end_is_told_though_the_log_takes_too_long(self, capsys: pytest.CaptureFixture[str]) -> None:
        def events() -> Iterator[Event]:
            yield StatusChanged(status(status="error"))
            raise WatchTimeout("Timed out watching job 'pz-1'")

        assert WatchView("pz-1", Terminal(), sys.stdout).follow(events()) == 1
        captured = capsys.readouterr()
        assert captured.out.endswith("] Status: error\n")
        assert captured.err == "Timed out watching job 'pz-1'\n"

    def test_no_history(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, Answer(status(status="active")), Answer(status()))
        server.on("GET", LOGS, Answer(logs(line("old"))), Answer(logs(line("old"), line("new"))))
        out = nemo("jobs", "watch", "pz-1", "--no-history").out
        assert "| new" in out
        assert "| old" not in out

    def test_not_found(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, detail(404, "Job 'pz-1' not found in workspace 'default'."))
        result = nemo("jobs", "watch", "pz-1")
        assert (result.out, result.err, result.code) == (
            "",
            "Job 'pz-1' not found in workspace 'default'.\n",
            1,
        )

    def test_timeout(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, Answer(status(status="active")))
        server.on("GET", LOGS, Answer(logs()))
        start = time.monotonic()
        result = nemo("jobs", "watch", "pz-1", "--timeout", "1", sleep=time.sleep)
        assert (result.err, result.code) == ("Timed out watching job 'pz-1'\n", 1)
        assert time.monotonic() - start < 25

    def test_trouble_is_told_once_and_waited_for(self, server: FakeServer, nemo: Nemo) -> None:
        unavailable = detail(503, "away", x_should_retry="false")
        server.on("GET", STATUS, unavailable, unavailable, Answer(status()))
        server.on("GET", LOGS, detail(500, "broken", x_should_retry="false"), Answer(logs(line("hi"))))
        result = nemo("jobs", "watch", "pz-1")
        warnings = [text.split("] ", 1)[1] for text in result.err.splitlines()]
        assert warnings == ["Transient status check failed: (503) away", "Log check failed: (500) broken"]
        assert result.out.startswith(shown("hi"))
        assert result.out.endswith("] Status: completed\nJob 'pz-1' completed\n")
        assert result.code == 0

    def test_a_log_that_cannot_be_read_does_not_hold_the_end_up(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, Answer(status()))
        server.on("GET", LOGS, detail(500, "broken", x_should_retry="false"))
        result = nemo("jobs", "watch", "pz-1")
        assert result.err.endswith("Terminal log drain retry cap reached (3); stopping watch for job 'pz-1'\n")
        assert len([seen for seen in server.seen if seen.path == LOGS]) == 3
        assert (result.out.splitlines()[-1], result.code) == ("Job 'pz-1' completed", 0)

    def test_ctrl_c(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, Answer(status(status="active", status_details={"step": 1})))
        server.on("GET", LOGS, Answer(logs()))
        result = nemo("jobs", "watch", "pz-1", sleep=interrupt_at(2))
        assert result.err == (
            "Interrupted watching job 'pz-1'; last known status: active. Exiting.\n"
            "The job goes on. Follow it with nemo jobs watch pz-1, end it with nemo jobs cancel pz-1.\n"
        )
        assert result.code == 130

    def test_ctrl_c_names_the_workspace_that_was_asked_for(self, server: FakeServer, nemo: Nemo) -> None:
        of_team = f"{JOBS.replace('default', 'team')}/pz-1"
        server.on("GET", f"{of_team}/status", Answer(status(status="active")))
        server.on("GET", f"{of_team}/logs", Answer(logs()))
        result = nemo("jobs", "watch", "pz-1", "--workspace", "team", sleep=interrupt_at(1))
        assert result.err.endswith("end it with nemo jobs cancel pz-1 --workspace team.\n")

    def test_ctrl_c_while_the_last_lines_are_waited_for(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", STATUS, Answer(status()))
        server.on("GET", LOGS, detail(500, "broken", x_should_retry="false"))
        result = nemo("jobs", "watch", "pz-1", sleep=interrupt_at(1))
        assert result.err.endswith("Interrupted watching job 'pz-1'; last known status: completed. Exiting.\n")
        assert result.code == 130

    def test_ctrl_c_before_any_status(self, server: FakeServer, nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
        server.on("GET", STATUS, detail(503, "away", x_should_retry="false"))
        result = nemo("jobs", "watch", "pz-1", sleep=interrupt_at(1))
        assert result.err.splitlines()[-2:] == [
            "Interrupted watching; no status received. Exiting.",
            "The job goes on. Follow it with nemo jobs watch pz-1, end it with nemo jobs cancel pz-1.",
        ]
        assert result.code == 130


def interrupt_at(wait: int) -> Callable[[float], None]:
    """A sleep in which the person presses Ctrl-C at the `wait`-th time."""
    waits = iter(range(1, wait))

    def sleep(seconds: float) -> None:
        if next(waits, None) is None:
            raise KeyboardInterrupt

    return sleep
