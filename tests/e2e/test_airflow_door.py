"""What a person does on Airflow's own pages: mark and clear. Airflow's pages call the API used here."""

from __future__ import annotations

import os

from tests.e2e.lab import Job, Lab, Marks, polite, python, step
from tests.e2e.stages import clear
from tests.stack.airflow import wait_until


def mark_run(job: Job, state: str) -> None:
    job.lab.airflow("PATCH", job.run_path, {"state": state})


def mark_task(job: Job, task: str, state: str) -> None:
    job.lab.airflow("PATCH", f"{job.run_path}/taskInstances/{task}", {"new_state": state})


def saying(marks: Marks) -> list[str]:
    """Prints its process id."""
    return python(marks.code, "print(os.getpid())")


def first_time(marks: Marks, code: str) -> str:
    """Code that only the first execution runs."""
    return f"import time\nif len(open({str(marks.path)!r}).read().split()) == 1: {code}"


class TestMark:
    def test_a_run_marked_failed_is_a_cancelled_job(self, lab: Lab) -> None:
        marks = lab.marks()
        job = lab.submit("marked", step("work", polite(marks)), step("never", python("pass")))
        job.wait_for_line("up")
        mark_run(job, "failed")
        assert job.get()["status"] in ("cancelling", "cancelled")
        ended = job.wait("cancelled")
        assert ended["status_details"]["cancelled_by"]
        job.wait_gone()
        assert job.messages() == ["up", "bye"]
        assert [one["status"] for one in job.steps()] == ["cancelled"]

    def test_a_step_marked_failed(self, lab: Lab) -> None:
        job = lab.submit("step", step("work", polite(lab.marks())))
        job.wait_for_line("up")
        mark_task(job, "work", "failed")
        job.wait("cancelled")
        job.wait_gone()
        assert job.messages() == ["up", "bye"]

    def test_a_step_marked_success_ends_and_the_next_one_runs(self, lab: Lab) -> None:
        job = lab.submit("good", step("work", polite(lab.marks())), step("next", python("print('next')")))
        job.wait_for_line("up")
        mark_task(job, "work", "success")
        job.wait("completed")
        job.wait_for_line("bye")  # to Airflow the step was over before its command had ended
        job.wait_gone()
        assert job.messages() == ["up", "bye", "next"]


class TestClear:
    def test_of_a_finished_job_is_a_new_attempt(self, lab: Lab) -> None:
        one, two = lab.marks(), lab.marks()
        job = lab.submit("again", step("one", saying(one)), step("two", saying(two)))
        first = job.wait("completed")
        clear(job)
        wait_until(lambda: len(two.pids) == 2, 60, "the second execution")
        second = job.wait("completed")
        assert second["id"] == first["id"]
        assert second["attempt_id"] != first["attempt_id"]
        assert len(one.pids) == 2
        assert job.messages() == [str(one.pids[1]), str(two.pids[1])]

    def test_of_one_step_keeps_what_came_before(self, lab: Lab) -> None:
        one, two = lab.marks(), lab.marks()
        job = lab.submit("from", step("one", saying(one)), step("two", saying(two)))
        job.wait("completed")
        clear(job, "two")
        wait_until(lambda: len(two.pids) == 2, 60, "the second execution")
        job.wait("completed")
        assert len(one.pids) == 1
        assert job.messages() == [str(one.pids[0]), str(two.pids[1])]

    def test_of_a_failed_and_of_a_cancelled_job(self, lab: Lab) -> None:
        failed, cancelled = lab.marks(), lab.marks()
        jobs = [
            lab.submit("mended", step("work", python(failed.code, first_time(failed, "raise SystemExit(3)")))),
            lab.submit("asked", step("work", python(cancelled.code, first_time(cancelled, "time.sleep(60)")))),
        ]
        jobs[0].wait("error")
        wait_until(lambda: cancelled.pids, 60, "the start")
        jobs[1].cancel()
        jobs[1].wait("cancelled")
        for job, marks in zip(jobs, (failed, cancelled), strict=True):
            clear(job)
            wait_until(lambda marks=marks: len(marks.pids) == 2, 60, "the second execution")
            ended = job.wait("completed")
            assert ended["error_details"] is None
            assert "cancelled_by" not in ended["status_details"]

    def test_of_a_running_step_stops_it_and_runs_it_once_more(self, lab: Lab) -> None:
        marks = lab.marks()
        job = lab.submit(
            "restart",
            step(
                "work",
                python(
                    marks.code,
                    "print(os.getpid())",
                    first_time(marks, "time.sleep(60)"),
                ),
            ),
        )
        [first] = wait_until(lambda: marks.pids, 60, "the first execution")
        job.wait_for_line(str(first))
        clear(job)
        wait_until(lambda: len(marks.pids) == 2, 60, "the second execution")
        job.wait("completed")
        assert not os.path.exists(f"/proc/{first}")
        assert len(marks.pids) == 2
        assert job.messages() == [str(marks.pids[1])]
