"""A job elsewhere: made once, followed through whatever its server does, ended or left as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nemo_airflow_provider.errors import InvalidJob, Superseded
from nemo_airflow_provider.remote.adoption import FIELD
from nemo_airflow_provider.remote.follow import PAGE_LINES
from nemo_airflow_provider.remote.record import RECORD_KEY
from nemo_airflow_provider.remote.trouble import RemoteTrouble
from nemo_airflow_provider.runner import StepFailed, StepLeft, StoreUnavailable
from tests.unit.cli.fake_server import Answer, detail
from tests.unit.remote.jobs_server import AWARE, NAIVE, NAME, JobsServer, QuickHost, next_try, row, run


@pytest.fixture
def server() -> Iterator[JobsServer]:
    with JobsServer().running() as running:
        assert isinstance(running, JobsServer)
        yield running


@pytest.fixture
def host() -> QuickHost:
    return QuickHost()


class TestSubmission:
    def test_the_job_carries_whose_it_is(self, server: JobsServer, host: QuickHost) -> None:
        done = run(server, host)
        assert (done.id, done.name, done.status, done.results) == ("platform-job-0", NAME, "completed", [])
        fields = server.jobs[NAME]["custom_fields"][FIELD]
        assert fields == {
            "dag_id": "dag",
            "run_id": "run",
            "task_id": "train",
            "map_index": -1,
            "generation": 0,
            "mark": host.values[RECORD_KEY]["mark"],
        }

    def test_the_record_is_written_before_the_server_is_asked(self, server: JobsServer, host: QuickHost) -> None:
        server.faults["POST jobs"] = [detail(422, "no such profile")]
        with pytest.raises(StepFailed, match="refuses the job: no such profile"):
            run(server, host)
        assert host.values[RECORD_KEY]["state"] == "submitting"

    @pytest.mark.parametrize("fault", [Answer(hang_up=True), detail(500, "An unexpected error occurred.")])
    def test_an_answer_that_is_lost_makes_no_second_job(
        self, server: JobsServer, host: QuickHost, fault: Answer
    ) -> None:
        create = server.create

        def once(body: dict[str, Any]) -> Answer:
            server.create = create  # type: ignore[method-assign]
            create(body)
            return fault

        server.create = once  # type: ignore[method-assign]
        assert run(server, host).id == "platform-job-0"
        assert list(server.jobs) == [NAME]
        assert any(note.startswith("Adopted job") for note in host.notes)

    def test_a_try_that_died_while_it_submitted_is_taken_over(self, server: JobsServer, host: QuickHost) -> None:
        server.faults["POST jobs"] = [detail(422, "died")]
        with pytest.raises(StepFailed):
            run(server, host)
        mark = host.values[RECORD_KEY]["mark"]
        server.create({"name": NAME, "custom_fields": {FIELD: {"mark": mark}}})
        assert run(server, next_try(host)).id == "platform-job-0"

    @pytest.mark.parametrize("fields", [None, {}, {FIELD: None}, {FIELD: {"mark": "other"}}])
    def test_a_job_of_somebody_else_is_not_touched(self, server: JobsServer, host: QuickHost, fields: Any) -> None:
        server.create({"name": NAME, "custom_fields": fields})
        with pytest.raises(StepFailed, match="is not this task's, so it is left alone"):
            run(server, host)
        assert not server.cancelled

    def test_a_name_that_the_server_keeps_without_a_job(self, server: JobsServer, host: QuickHost) -> None:
        server.faults["POST jobs"] = [detail(409, "taken", x_should_retry="false")]
        with pytest.raises(StepFailed, match="Clear the task, or give another `name`"):
            run(server, host)

    def test_a_cleared_task_makes_a_new_job_and_ends_the_old_one(self, server: JobsServer, host: QuickHost) -> None:
        server.on_status = lambda found: host.terminated.set()
        with pytest.raises(StepLeft):
            run(server, host)
        server.on_status = lambda found: found.update(status="completed")
        done = run(server, next_try(host), generation=4)
        assert (done.name, done.id) == (f"{NAME}-2", "platform-job-1")
        assert server.cancelled == [NAME]

    @pytest.mark.parametrize("name", ["Capital", "x", "a" * 52, "two--dashes", "under_score/slash"])
    def test_a_name_that_is_none(self, server: JobsServer, host: QuickHost, name: str) -> None:
        with pytest.raises(InvalidJob, match="is no name for a job"):
            run(server, host, name=name)
        assert not server.seen


class TestLog:
    def test_the_next_try_goes_on_where_the_last_one_was(self, server: JobsServer, host: QuickHost) -> None:
        server.rows = [row(number) for number in range(PAGE_LINES + 10)]
        looks = iter(range(100))

        def leave(found: dict[str, Any]) -> None:
            if next(looks) == 2:
                host.terminated.set()

        server.on_status = leave
        with pytest.raises(StepLeft):
            run(server, host)
        server.rows += [row(number) for number in range(len(server.rows), 2 * PAGE_LINES + 5)]
        server.on_status = lambda found: found.update(status="completed")
        second = next_try(host)
        run(server, second)
        assert host.messages + second.messages == [f"line {number}" for number in range(2 * PAGE_LINES + 5)]
        assert [line.seq for line in host.lines + second.lines] == list(range(1, 2 * PAGE_LINES + 6))
        assert not any("were being written" in note for note in second.notes)

    def test_a_try_that_died_while_it_wrote_says_what_it_repeats(self, server: JobsServer, host: QuickHost) -> None:
        server.rows = [row(number) for number in range(5)]

        class Killed(BaseException):
            pass

        def die(line: Any) -> None:
            raise Killed

        host.emit = die  # type: ignore[method-assign]
        with pytest.raises(Killed):
            run(server, host)
        second = next_try(host)
        run(server, second)
        assert second.messages == [f"line {number}" for number in range(5)]
        assert [note for note in second.notes if "were being written" in note] == [
            "Lines 1 to 5 were being written when the try before ended: its log may hold some of them too."
        ]

    def test_lines_that_come_after_the_end(self, server: JobsServer, host: QuickHost) -> None:
        """Upstream 0.8.1 ends a job before its last lines can be read."""
        server.created_at = NAIVE
        looks = iter(range(100))

        def end(found: dict[str, Any]) -> None:
            found.update(status="completed")
            if next(looks) == 3:
                server.rows = [row(1)]

        server.on_status = end
        run(server, host)
        assert host.messages == ["line 1"]
        assert 5 <= host.clock.seconds < 15

    def test_ours_is_not_waited_for(self, server: JobsServer, host: QuickHost) -> None:
        run(server, host)
        assert host.clock.seconds == 0

    def test_lines_that_are_late_double_none(self, server: JobsServer, host: QuickHost) -> None:
        """Upstream's pages are numbers: a line that sorts before others moves those to later pages."""
        server.rows = [row(number) for number in range(10, PAGE_LINES + 13)]
        looks = iter(range(100))

        def insert(found: dict[str, Any]) -> None:
            look = next(looks)
            if look == 1:
                server.rows += [row(1), row(PAGE_LINES + 11, "late"), row(PAGE_LINES + 100, "new")]
            if look == 2:
                found.update(status="completed")

        server.on_status = insert
        run(server, host)
        assert sorted(host.messages[-2:]) == ["late", "new"]
        assert host.messages[:-2] == [f"line {number}" for number in range(10, PAGE_LINES + 13)]
        assert any(note.startswith("1 lines came too late") for note in host.notes)

    def test_lines_that_are_equal_are_all_given(self, server: JobsServer, host: QuickHost) -> None:
        same = row(1, "same")
        server.rows = [same] * (PAGE_LINES - 1)
        looks = iter(range(100))

        def grow(found: dict[str, Any]) -> None:
            look = next(looks)
            server.rows += [same] * 3
            if look == 3:
                found.update(status="completed")

        server.on_status = grow
        run(server, host)
        assert len(host.messages) == PAGE_LINES - 1 + 12

    def test_the_middle_of_a_long_log_is_left_out(self, server: JobsServer, host: QuickHost) -> None:
        server.rows = [row(number) for number in range(1, 2 * PAGE_LINES + 1)]
        run(server, host, max_log_lines=3)
        assert [line.seq for line in host.lines] == [1, 2, 3, *range(2 * PAGE_LINES - 2, 2 * PAGE_LINES + 1)]
        assert any(note.startswith(f"{2 * PAGE_LINES - 6} lines are left out here; `nemo ") for note in host.notes)

    @pytest.mark.parametrize(
        ("first", "last", "shown"), [(3, 20, [16, 17, 18, 19, 20]), (12, 14, [10, 11, 12, 13, 14])]
    )
    def test_the_end_of_a_long_log_is_there_after_a_lost_try(
        self, server: JobsServer, host: QuickHost, first: int, last: int, shown: list[int]
    ) -> None:
        server.rows = [row(number) for number in range(1, first + 1)]
        looks = iter(range(100))
        server.on_status = lambda found: host.terminated.set() if next(looks) == 2 else None
        with pytest.raises(StepLeft):
            run(server, host, max_log_lines=5)
        server.rows += [row(number) for number in range(first + 1, last + 1)]
        server.on_status = lambda found: found.update(status="completed")
        second = next_try(host)
        run(server, second, max_log_lines=5)
        assert [line.seq for line in host.lines + second.lines] == [1, 2, 3, 4, 5, *shown]
        assert [line.message for line in second.lines][-5:] == [f"line {number}" for number in shown]
        assert any(note.startswith(f"{last - 10} lines are left out here; `nemo ") for note in second.notes)

    def test_the_end_that_cannot_be_read_again_is_said_to_be_left_out(
        self, server: JobsServer, host: QuickHost
    ) -> None:
        server.rows = [row(number) for number in range(1, 21)]
        looks = iter(range(100))
        server.on_status = lambda found: host.terminated.set() if next(looks) == 2 else None
        with pytest.raises(StepLeft):
            run(server, host, max_log_lines=5)

        def end(found: dict[str, Any]) -> None:
            found.update(status="completed")
            server.tail_fault = detail(422, "no tail here")

        server.on_status = end
        second = next_try(host)
        assert run(server, second, max_log_lines=5).status == "completed"
        assert any("cannot be read again: " in note for note in second.notes)
        assert any(note.startswith("15 lines are left out here; `nemo ") for note in second.notes)

    def test_no_lines_are_wanted(self, server: JobsServer, host: QuickHost) -> None:
        server.rows = [row(number) for number in range(5)]
        run(server, host, max_log_lines=0)
        assert not host.lines
        assert [note[:28] for note in host.notes if "lines" in note] == ["5 lines are left out here; `"]

    def test_a_log_that_cannot_be_had_costs_the_job_nothing(self, server: JobsServer, host: QuickHost) -> None:
        """Upstream fails so for names with @ or +."""
        server.faults["GET logs"] = [detail(500, "Failed to query job logs")] * 1000
        assert run(server, host).status == "completed"
        assert 60 < host.clock.seconds < 200
        assert any("Failed to query job logs" in note for note in host.notes)

    def test_a_state_store_that_is_away_costs_the_job_nothing(self, server: JobsServer, host: QuickHost) -> None:
        server.rows = [row(number) for number in range(5)]
        save = host.save
        fails = iter([False, False, True, True])

        def away(key: str, value: Any) -> None:
            if next(fails, False):
                raise StoreUnavailable("no answer")
            save(key, value)

        host.save = away  # type: ignore[method-assign]
        assert run(server, host).status == "completed"
        assert len(host.messages) == 5


class TestTrouble:
    @pytest.mark.parametrize("fault", [detail(500, "oops"), detail(503, "busy"), Answer(hang_up=True)])
    def test_an_outage_is_ridden_out(self, server: JobsServer, host: QuickHost, fault: Answer) -> None:
        server.faults = {"POST jobs": [fault] * 3, "GET status": [fault] * 9, "GET logs": [fault] * 9}
        server.rows = [row(1)]
        assert run(server, host).status == "completed"
        assert host.messages == ["line 1"]

    def test_one_that_lasts_ends_the_try_and_not_the_job(self, server: JobsServer, host: QuickHost) -> None:
        server.faults = {"GET status": [detail(503, "busy")] * 1000}
        with pytest.raises(RemoteTrouble, match=r"connection 'there' .* says: \(503\) busy"):
            run(server, host)
        assert 60 < host.clock.seconds < 120
        assert not server.cancelled
        server.faults = {}
        assert run(server, next_try(host)).id == "platform-job-0"

    @pytest.mark.parametrize(
        ("fault", "text"),
        [
            (detail(401, "Unauthorized"), "refuses its token: get a new one and store it as the connection's password"),
            (detail(403, "Forbidden"), "connection 'there' .* does not allow that: Forbidden. Check its token"),
            (detail(404, "Not Found"), "has no jobs API there: the host must be its base URL"),
            (Answer(b"<html>", content_type="text/html"), "is not a jobs API: the answer is text/html"),
        ],
    )
    def test_what_to_do_is_told(self, server: JobsServer, host: QuickHost, fault: Answer, text: str) -> None:
        server.faults = {"POST jobs": [fault]}
        with pytest.raises(RemoteTrouble, match=text):
            run(server, host)

    def test_a_job_that_is_deleted(self, server: JobsServer, host: QuickHost) -> None:
        server.on_status = lambda found: server.jobs.clear()
        with pytest.raises(StepFailed, match="Job 'given' is gone from"):
            run(server, host)

    def test_a_job_that_is_another_one(self, server: JobsServer, host: QuickHost) -> None:
        server.on_status = lambda found: found.update(id="platform-job-7")
        with pytest.raises(StepFailed, match="is another one now: .* was platform-job-0, that is platform-job-7"):
            run(server, host)


class TestEnds:
    def test_a_failure_is_told_in_the_servers_words(self, server: JobsServer, host: QuickHost) -> None:
        server.on_status = lambda found: found.update(status="error", error_details={"message": "exit code 3"})
        with pytest.raises(StepFailed, match="^Job 'given' ended as error: exit code 3$"):
            run(server, host)

    def test_too_long(self, server: JobsServer, host: QuickHost) -> None:
        server.on_status = lambda found: None
        with pytest.raises(StepFailed, match="had not ended after 20 seconds and was cancelled"):
            run(server, host, timeout_seconds=20)
        assert server.cancelled == [NAME]

    @pytest.mark.parametrize("created_at", [AWARE, NAIVE])
    def test_the_time_of_an_adopted_job_runs_since_its_creation(
        self, server: JobsServer, host: QuickHost, created_at: str
    ) -> None:
        server.faults["POST jobs"] = [detail(422, "died")]
        with pytest.raises(StepFailed):
            run(server, host)
        server.created_at = created_at  # longer ago than an hour
        server.create({"name": NAME, "custom_fields": {FIELD: {"mark": host.values[RECORD_KEY]["mark"]}}})
        server.on_status = lambda found: None
        second = next_try(host)
        with pytest.raises(StepFailed, match="had not ended after 3600 seconds"):
            run(server, second, timeout_seconds=3600)
        assert second.clock.seconds < 60

    @pytest.mark.parametrize(
        ("state", "cancel_on_kill", "error", "cancelled"),
        [
            ("running", True, StepLeft, False),
            (None, True, StepLeft, False),
            ("failed", True, StepFailed, True),
            ("success", True, StepFailed, True),
            ("restarting", True, StepFailed, True),
            ("failed", False, StepFailed, False),
        ],
    )
    def test_sigterm(
        self,
        server: JobsServer,
        host: QuickHost,
        state: str | None,
        cancel_on_kill: bool,
        error: type[Exception],
        cancelled: bool,
    ) -> None:
        host.state = state
        server.on_status = lambda found: host.terminated.set()
        with pytest.raises(error):
            run(server, host, cancel_on_kill=cancel_on_kill)
        assert bool(server.cancelled) is cancelled

    def test_a_cancel_that_fails_is_told(self, server: JobsServer, host: QuickHost) -> None:
        host.state = "failed"
        server.on_status = lambda found: host.terminated.set()
        server.faults["POST cancel"] = [detail(409, "busy", x_should_retry="false")]
        with pytest.raises(StepFailed, match="may go on: it was not cancelled"):
            run(server, host)
        assert any("could not be cancelled" in note for note in host.notes)

    def test_sigterm_while_a_token_is_asked_for(self, server: JobsServer, host: QuickHost) -> None:
        def hang() -> Answer:
            host.terminated.set()
            server.over.wait(60)
            return Answer(hang_up=True)

        server.on_login = hang
        with pytest.raises(StepLeft):
            run(server, host, login=True)

    def test_a_token_that_does_not_come_holds_no_cancel_up(
        self, server: JobsServer, host: QuickHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nemo_airflow_provider.remote.run._LAST_SECONDS", 0.2)
        host.state = "failed"

        def terminate(found: dict[str, Any]) -> None:
            server.on_login = lambda: (server.over.wait(60), Answer(hang_up=True))[1]
            host.terminated.set()

        server.on_status = terminate
        with pytest.raises(StepFailed, match="may go on: it was not cancelled"):
            run(server, host, login=True)

    def test_sigterm_while_it_completes_is_no_success(self, server: JobsServer, host: QuickHost) -> None:
        def end(found: dict[str, Any]) -> None:
            found.update(status="completed")
            host.terminated.set()

        server.on_status = end
        with pytest.raises(StepLeft):
            run(server, host)
        server.on_status = lambda found: None
        assert run(server, next_try(host)).status == "completed"

    def test_a_try_that_another_one_has_taken_over_asks_nothing(self, server: JobsServer, host: QuickHost) -> None:
        host.superseded = True
        with pytest.raises(Superseded):
            run(server, host)
        assert not server.seen


class TestResults:
    def test_content_is_returned_where_asked(self, server: JobsServer, host: QuickHost) -> None:
        server.results = [{"name": "metrics", "artifact_url": "default/x#m"}, {"name": "model", "artifact_url": "u"}]
        assert run(server, host, results=["metrics"]).results == [
            {"name": "metrics", "artifact_url": "default/x#m", "content": {"loss": 0.5}},
            {"name": "model", "artifact_url": "u"},
        ]

    @pytest.mark.parametrize(
        ("results", "limit", "text"),
        [
            (["other"], 1000, "without the result 'other'; its results: metrics"),
            (["metrics"], 5, "larger than the 5 bytes that were asked for. Leave it out of `results`"),
        ],
    )
    def test_what_cannot_be_returned(
        self, server: JobsServer, host: QuickHost, results: list[str], limit: int, text: str
    ) -> None:
        server.results = [{"name": "metrics", "artifact_url": "u"}]
        with pytest.raises(StepFailed, match=text):
            run(server, host, results=results, max_result_bytes=limit)
