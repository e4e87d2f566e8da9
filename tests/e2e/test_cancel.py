"""Cancelling at every moment of a job's life, and deleting."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from tests.e2e.lab import Lab, deaf, in_parallel, numbered, polite, python, step
from tests.stack.airflow import wait_until

#: Whether a change of a run waits for a lock.
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query LIKE 'UPDATE dag_run%'"
)


@pytest.fixture
def gate(lab: Lab) -> Iterator[None]:
    """What waits at the gate is let go when the test is over."""
    yield
    lab.open_gate(4)
    lab.open_gate(0)


class TestCancel:
    # On SQLite, Airflow's own changes of several runs at once wait for each other, and its scheduler gives up.
    @pytest.mark.needs("postgres")
    def test_at_once_after_creation(self, lab: Lab) -> None:
        marks = [lab.marks() for _ in range(6)]
        jobs = [lab.submit("early", step("work", polite(mark))) for mark in marks]
        in_parallel(job.cancel for job in jobs)
        for job, mark in zip(jobs, marks, strict=True):
            job.wait("cancelled")
            job.wait_gone()
            assert len(mark.pids) <= 1
            if not mark.pids:
                assert job.messages() == []

    def test_while_airflow_has_no_room(self, lab: Lab, gate: None) -> None:
        marks = lab.marks()
        job = lab.submit("waits", step("work", polite(marks), "gated"))
        job.wait("pending")
        job.cancel()
        ended = job.wait("cancelled", timeout_seconds=30)
        assert ended["status_details"]["cancelled_by"]
        lab.open_gate(4)
        after = lab.submit("after", step("work", python("print('ok')"), "gated"))
        after.wait("completed")
        assert not marks.pids

    def test_between_steps(self, lab: Lab, gate: None) -> None:
        marks = lab.marks()
        job = lab.submit("between", step("first", python("print('one')")), step("second", polite(marks), "gated"))
        job.wait_for_line("one")
        job.wait("active")
        job.cancel()
        job.wait("cancelled", timeout_seconds=30)
        assert [(one["name"], one["status"]) for one in job.steps()] == [
            ("first", "completed"),
            ("second", "cancelled"),
        ]
        assert job.messages() == ["one"]
        assert not marks.pids

    @pytest.mark.needs("postgres")
    def test_though_airflow_loses_a_deadlock(self, lab: Lab, gate: None) -> None:
        """Airflow's API locks tasks before their run, its scheduler the run before its tasks."""
        marks = lab.marks()
        job = lab.submit("deadlock", step("work", polite(marks), "gated"))
        job.wait("pending")
        wait_until(lambda: job.task("work")["state"] == "scheduled", 60, "the scheduler")
        run = {"run": job.name}
        with lab.database() as scheduler, lab.database() as observer, ThreadPoolExecutor(1) as pool:
            scheduler.execute(text("BEGIN"))
            scheduler.execute(text("SELECT FROM dag_run WHERE run_id = :run FOR NO KEY UPDATE"), run)
            cancelled = pool.submit(job.cancel)
            wait_until(lambda: observer.execute(WAITING).scalar(), 60, "Airflow's API")
            # The one that has waited for a second first is the one that loses.
            scheduler.execute(text("UPDATE task_instance SET updated_at = now() WHERE run_id = :run"), run)
            scheduler.execute(text("ROLLBACK"))
            assert cancelled.result()["status"] == "cancelled"
        lab.open_gate(4)
        lab.submit("after", step("work", python("print('ok')"), "gated")).wait("completed")
        assert not marks.pids

    def test_in_a_step_twice(self, lab: Lab) -> None:
        marks, never = lab.marks(), lab.marks()
        job = lab.submit("twice", step("work", polite(marks)), step("never", python(never.code)))
        job.wait_for_line("up")
        assert job.cancel()["status"] == "cancelling"
        assert job.cancel()["status"] in ("cancelling", "cancelled")
        ended = job.wait("cancelled")
        assert ended["error_details"] is None
        job.wait_gone()
        assert job.messages() == ["up", "bye"]
        assert not never.pids
        assert job.cancel()["status"] == "cancelled"

    def test_a_deaf_command_is_killed_after_its_grace(self, lab: Lab) -> None:
        marks = lab.marks()
        job = lab.submit("deaf", step("work", deaf(marks), "brief"))
        job.wait_for_line("up")
        job.cancel()
        job.wait("cancelled", timeout_seconds=30)
        assert job.messages() == ["up", "no"]
        job.wait_gone()

    def test_a_finished_job_stays_as_it_is(self, lab: Lab) -> None:
        jobs = [lab.submit("over", step("work", python(code))) for code in ("pass", "raise SystemExit(1)")]
        for job, status in zip(jobs, ("completed", "error"), strict=True):
            before = job.wait(status)
            assert job.cancel() == before
            assert job.get() == before


class TestDelete:
    def test_the_name_is_free_and_the_log_gone(self, lab: Lab) -> None:
        job = lab.submit("delete", step("work", python("print('first')")))
        job.wait("completed")
        assert job.messages() == ["first"]
        old = job.get()["id"]
        assert lab.http.delete(job.url).status_code == 204
        for url in (job.url, f"{job.url}/logs", f"{job.url}/status", job.url.replace(job.name, old)):
            assert lab.http.get(url).status_code == 404
        assert lab.http.delete(job.url).status_code == 404
        assert [run["state"] for run in lab.runs(job.name)] == ["success"]
        assert not [path for path in (lab.stack.home / "nemo").rglob("*.jsonl") if "first" in path.read_text()]

        assert lab.create(job.name, step("work", python("print('second')"))).status_code == 201
        assert job.wait("completed")["id"] != old
        assert job.messages() == ["second"]
        # The first goes with the next sweep, once it has been over for a minute.
        assert len(lab.runs(job.name)) in (1, 2)

    def test_not_while_it_runs(self, lab: Lab) -> None:
        job = lab.submit("busy", step("work", polite(lab.marks())))
        job.wait_for_line("up")
        answer = lab.http.delete(job.url)
        assert answer.status_code == 409
        assert answer.json()["detail"].startswith(f"Cannot delete job '{job.name}' while it is 'active'.")
        assert job.get()["status"] == "active"
        job.cancel()
        job.wait("cancelled")
        assert lab.http.delete(job.url).status_code == 204

    def test_another_job_keeps_its_log(self, lab: Lab) -> None:
        first, second = (lab.submit("pair", step("work", python("print('line 0')"))) for _ in range(2))
        first.wait("completed")
        second.wait("completed")
        assert lab.http.delete(first.url).status_code == 204
        assert second.messages() == numbered(1)
