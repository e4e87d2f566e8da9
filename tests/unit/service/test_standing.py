"""What Airflow says about what engines hold: the whole of its states, and how steps without a runner ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import INTENT_KEY, STEP_RETRIES, Handle, Intent, step_key
from nemo_airflow_provider.model.status import TASK_STATES, Action, Status
from nemo_airflow_provider.model.verdict import Verdict, judged, parse_verdict, verdict_key
from nemo_airflow_provider.service.gateway import RunRow
from nemo_airflow_provider.service.standing import CANCEL_SECONDS, is_long_cancelled, standing_of, verdict_on
from nemo_airflow_provider.service.view import JobView, view_of
from nemo_airflow_provider.sweep.office import AskedJob, AskedWorkload, Ending, Hold, JobStanding
from tests.unit.service.fakes import START, FakeGateway, record

#: States after which Airflow makes no other try.
ENDED = {"success", "failed", "skipped", "upstream_failed", "removed"}
END = START + timedelta(seconds=100)
LATER = END + timedelta(seconds=60)


class Run:
    """A job of one step whose runner has gone without a word."""

    def __init__(self, task_state: str | None = "failed", run_state: str = "failed", **left: Any) -> None:
        self.gateway = FakeGateway()
        self.row = self.gateway.run_state(self.gateway.add("job-1"), run_state, end_date=END)
        handle = Handle(state="submitted", engine="engine-1")
        self.left = record(left.pop("status", Status.ACTIVE), **{"handle": handle, "grace_seconds": 7, **left})
        self.gateway.step(self.row, "train", task_state, self.left, end_date=END)

    def write(self, key: str, value: Any) -> None:
        self.gateway.write_value(self.row, ["train"], key, value)

    def cancel(self, seconds: float = 0) -> None:
        intent = Intent(action=Action.CANCEL, by="ann", at=START + timedelta(seconds=seconds))
        self.write(INTENT_KEY, intent.model_dump(mode="json"))

    def view(self, at: Any = LATER) -> JobView:
        found = view_of(self.row, self.gateway.states[self.row.pk], at)
        assert found is not None
        return found

    def asked(self, generation: int = 0, start: int = 0) -> AskedJob:
        workload = AskedWorkload(step="train", generation=generation, start=start)
        return AskedJob(workspace="default", run_id="job-1", run_key=self.row.key, workloads=[workload])

    def standing(self, at: Any = LATER, **asked: int) -> JobStanding:
        return standing_of(self.asked(**asked), self.row, self.view(at), at)

    def verdict(self, at: Any = LATER, exit_code: int | None = 3, **of: Any) -> Verdict | None:
        message = None if exit_code is not None else "Nobody knows"
        where = {"generation": 0, "start": 0, "message": message, **of}
        ending = Ending(
            workspace="default",
            run_id="job-1",
            run_key=self.row.key,
            step="train",
            exit_code=exit_code,
            **where,
        )
        return verdict_on(self.view(at).all_steps[0], ending)


def hold(standing: JobStanding) -> Hold:
    return standing.workloads[0].hold


@pytest.mark.parametrize("state", sorted(TASK_STATES, key=str))
def test_only_what_airflow_has_ended_is_over(state: str | None) -> None:
    assert hold(Run(state).standing()) is (Hold.OVER if state in ENDED else Hold.LIVE)


@pytest.mark.parametrize("state", sorted(TASK_STATES, key=str))
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.PAUSED])
def test_whatever_the_record_says(state: str | None, status: Status) -> None:
    """A worker may be lost between the record of an end and its report; and a paused step is adopted."""
    assert hold(Run(state, status=status).standing()) is (Hold.OVER if state in ENDED else Hold.LIVE)


def test_a_runner_has_time_for_its_last_words() -> None:
    run = Run()
    assert hold(run.standing(END + timedelta(seconds=15))) is Hold.LIVE
    assert hold(run.standing(END + timedelta(seconds=16))) is Hold.OVER
    said = Run(status=Status.ERROR)
    assert hold(said.standing(END + timedelta(seconds=1))) is Hold.OVER


def test_what_is_told_of_it() -> None:
    found = Run().standing().workloads[0]
    assert (found.over_seconds, found.settled, found.engine) == (60, False, "engine-1")
    assert (found.step_index, found.grace_seconds, found.profile) == (0, 7, "subprocess/default")


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.ERROR, Status.CANCELLED])
def test_an_end_that_is_known_counts_from_then(status: Status) -> None:
    found = Run("success", status=status, ended_at=END - timedelta(seconds=30)).standing().workloads[0]
    assert (found.settled, found.over_seconds) == (True, 90)


class TestNewerExecutions:
    def test_a_step_that_waits_to_be_run_again_is_left_to_its_next_runner(self) -> None:
        run = Run(None, "queued")
        run.gateway.step(run.row, "train", None, max_tries=STEP_RETRIES + 1)
        assert hold(run.standing()) is Hold.LIVE

    def test_once_it_has_begun_the_older_one_is_over(self) -> None:
        run = Run("running", "running")
        run.gateway.step(run.row, "train", "running", record(Status.PENDING), max_tries=STEP_RETRIES + 1)
        assert hold(run.standing()) is Hold.OVER
        assert hold(run.standing(generation=1)) is Hold.LIVE

    def test_a_later_start_of_the_same_generation(self) -> None:
        run = Run("running", "running", handle=Handle(state="submitting", engine="engine-1", start=1))
        assert hold(run.standing(start=0)) is Hold.OVER
        assert run.standing(start=0).workloads[0].settled
        assert hold(run.standing(start=1)) is Hold.LIVE

    def test_a_task_with_retries_of_its_own_is_never_taken_for_an_older_one(self) -> None:
        """In a DAG that a person wrote our count of generations may differ from its runner's."""
        run = Run("running", "running")
        run.gateway.step(run.row, "train", "running", max_tries=STEP_RETRIES + 3)
        assert hold(run.standing(generation=0)) is Hold.LIVE
        assert hold(run.standing(generation=9)) is Hold.LIVE


class TestJobs:
    def test_over_since_the_end_of_its_run(self) -> None:
        found = Run().standing()
        assert (found.hold, found.over_seconds, found.profiles) == (Hold.OVER, 60, ["subprocess/default"])

    @pytest.mark.parametrize("state", ["queued", "running"])
    def test_live_before(self, state: str) -> None:
        assert Run("success", state).standing().hold is Hold.LIVE

    def test_unknown_to_airflow(self) -> None:
        found = standing_of(Run().asked(), None, None, LATER)
        assert (found.hold, hold(found)) == (Hold.GONE, Hold.GONE)

    @pytest.mark.parametrize(("state", "expected"), [("success", Hold.GONE), ("running", Hold.LIVE)])
    def test_deleted(self, state: str, expected: Hold) -> None:
        """One that somebody cleared after it was deleted runs, and is left alone."""
        run = Run("running", state)
        run.row = replace(run.row, deleted=True)
        assert hold(run.standing()) is expected

    @pytest.mark.parametrize(("state", "expected"), [("failed", Hold.OVER), ("running", Hold.LIVE)])
    def test_a_run_that_is_no_job_of_the_api(self, state: str, expected: Hold) -> None:
        run = Run(run_state=state)
        found = standing_of(run.asked(), run.row, None, LATER)
        assert (found.hold, hold(found)) == (expected, expected)
        assert found.workloads[0].settled, "nobody could be told how it ended"


class TestVerdicts:
    def test_cancelled(self) -> None:
        run = Run()
        run.cancel()
        verdict = run.verdict()
        assert verdict is not None
        assert (verdict.status, verdict.error_details) == ("cancelled", {})
        assert verdict.status_details == {"exit_code": 3, "message": "Job was cancelled with exit code 3"}

    def test_tries_used_up(self) -> None:
        verdict = Run().verdict()
        assert verdict is not None
        assert (verdict.status, verdict.error_details["reason"]) == ("error", "LostWorkload")
        assert verdict.error_details["message"].endswith("The workload ended with exit code 3.")

    def test_a_limit_had_run_out(self) -> None:
        handle = Handle(state="submitted", engine="engine-1", expired="Job timed out")
        verdict = Run(handle=handle).verdict()
        assert verdict is not None
        assert (verdict.status, verdict.error_details) == ("error", {"message": "Job timed out"})

    def test_nobody_knows_how(self) -> None:
        run = Run()
        run.cancel()
        verdict = run.verdict(exit_code=None)
        assert verdict is not None
        assert verdict.status_details == {"message": "Job was cancelled (Nobody knows)"}

    def test_it_never_ran(self) -> None:
        run = Run()
        run.cancel()
        verdict = run.verdict(exit_code=None, message=None)
        assert verdict is not None
        assert verdict.status_details == {"message": "Job was cancelled without an exit code"}

    def test_marked_successful(self) -> None:
        verdict = Run("success", "success").verdict()
        assert verdict is not None
        assert verdict.status == "completed"

    def test_an_older_execution(self) -> None:
        run = Run("running", "running")
        run.gateway.step(run.row, "train", "running", record(Status.ACTIVE), max_tries=STEP_RETRIES + 1)
        verdict = run.verdict()
        assert verdict is not None
        assert (verdict.status, verdict.status_details["message"]) == (
            "cancelled",
            "The step was run again; this execution ended with exit code 3",
        )

    @pytest.mark.parametrize("state", sorted(TASK_STATES - ENDED, key=str))
    def test_none_while_a_try_may_tell(self, state: str | None) -> None:
        assert Run(state).verdict() is None

    def test_none_over_a_word_of_the_runner(self) -> None:
        assert Run(status=Status.ERROR).verdict() is None

    def test_none_about_another_start(self) -> None:
        assert Run(handle=Handle(state="submitted", engine="e", start=1)).verdict(start=0) is None

    def test_it_makes_the_job_terminal_at_once(self) -> None:
        soon = END + timedelta(seconds=16)
        run = Run()
        run.cancel()
        assert run.view(soon).status == "cancelling"
        verdict = run.verdict(soon)
        assert verdict is not None
        run.write(verdict_key(0), verdict.model_dump(mode="json"))
        view = run.view(soon)
        assert view.status == "cancelled"
        assert view.status_details["message"] == "Job was cancelled with exit code 3"
        assert [task.status for task in view.all_steps[0].tasks] == ["cancelled"]
        assert run.standing(soon).workloads[0].settled

    def test_a_runner_that_writes_later_is_right(self) -> None:
        verdict = Verdict(status=Status.CANCELLED, at=START)
        assert judged(record(Status.ACTIVE, START), verdict).status == "cancelled"
        assert judged(record(Status.ACTIVE, START + timedelta(seconds=1)), verdict).status == "active"
        assert judged(record(Status.COMPLETED, START), verdict).status == "completed"

    @pytest.mark.parametrize(
        "value", [None, "x", {}, {"status": "active", "at": START.isoformat()}, {"status": "error"}]
    )
    def test_what_is_no_verdict(self, value: object) -> None:
        assert parse_verdict(value) is None


class TestLongCancels:
    def cancelled(self, run_state: str = "running", task_state: str | None = "running", seconds: float = 0) -> bool:
        run = Run(task_state, run_state)
        run.cancel()
        return is_long_cancelled(run.view(START + timedelta(seconds=seconds)))

    def test_the_grace_of_the_step_and_more(self) -> None:
        assert not self.cancelled(seconds=CANCEL_SECONDS + 7)
        assert self.cancelled(seconds=CANCEL_SECONDS + 8)

    def test_not_a_run_that_is_over(self) -> None:
        assert not self.cancelled("failed", "failed", 10**6)

    def test_not_without_a_cancel(self) -> None:
        assert not is_long_cancelled(Run("running", "running").view(START + timedelta(days=9)))

    def test_not_a_rerun_after_it(self) -> None:
        run = Run("running", "running")
        run.cancel()
        run.row = replace(run.row, clear_number=1)
        assert not is_long_cancelled(run.view(START + timedelta(days=9)))


def test_keys_of_verdicts_are_no_keys_of_records() -> None:
    assert verdict_key(3) == "verdict/3" != step_key(3)


def test_a_run_row_names_itself() -> None:
    row = RunRow(1, "nemo.default.a.0", "job-1", "failed", START, 0)
    assert row.key == names.run_key(row.dag_id, row.run_id, START)
