"""The sweep on a real Airflow: what it ends, stores and removes, and what it must never touch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from nemo_airflow_provider import processes
from tests.e2e.lab import Job, Lab, Marks, counting, deaf, numbered, polite, python, step
from tests.stack.airflow import wait_until

#: Sweeps each time it is told to: a new process for each would take most of the tests' time.
SWEEPER = """
import json, sys
from nemo_airflow_provider.airflow_cli.sweep import swept
out, sys.stdout = sys.stdout, sys.stderr
for _ in sys.stdin:
    print(json.dumps(swept()[0]), file=out, flush=True)
"""

Sweep = Callable[[], dict[str, int]]


@pytest.fixture(scope="module")
def sweep(lab: Lab) -> Iterator[Sweep]:
    """What `airflow nemo sweep` does; what was done, in numbers. The DAG sweeps too, where there is a scheduler."""
    with subprocess.Popen(
        [sys.executable, "-c", SWEEPER], env=lab.stack.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout

        def once() -> dict[str, int]:
            assert process.stdin and process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            # Airflow may say something about its configuration before.
            line = next(line for line in process.stdout if line.startswith("{"))
            found: dict[str, int] = json.loads(line)
            return found

        yield once
        process.stdin.close()


def command(lab: Lab, **environ: str) -> subprocess.CompletedProcess[str]:
    """`airflow nemo sweep`, as an administrator runs it."""
    words = [sys.executable, "-m", "airflow", "nemo", "sweep", "-o", "json"]
    env = {**lab.stack.environ, **environ}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=180, check=False)


def folder(job: Job) -> list[Path]:
    """What is left of a job on the host."""
    return list((job.lab.stack.home / "workloads" / "default").glob(f"{job.name}.*"))


def log_files(lab: Lab, job_id: str) -> list[Path]:
    return list((lab.stack.home / "nemo" / "logs" / "default" / job_id.removeprefix("platform-job-")).rglob("*"))


def age(lab: Lab, job: Job, seconds: int) -> None:
    """Move everything of a job into the past, as Airflow's database tells it."""
    back = {"run": job.name, "seconds": seconds}
    with lab.database() as database:
        if database.dialect.name == "postgresql":
            moved = "{0} = {0} - make_interval(secs => :seconds)"
        else:
            moved = "{0} = strftime('%Y-%m-%d %H:%M:%f', {0}, '-' || :seconds || ' seconds')"
        for table, columns in {"dag_run": ["end_date"], "task_instance": ["end_date"]}.items():
            changes = ", ".join(moved.format(column) for column in columns)
            database.execute(text(f"UPDATE {table} SET {changes} WHERE run_id = :run AND end_date IS NOT NULL"), back)


def age_record(lab: Lab, job: Job) -> None:
    """Let the record of a step say that it ended last year."""
    path = f"{job.run_path}/taskInstances/work/state-store/step%2F0"
    value = lab.airflow("GET", path)["value"]
    lab.airflow("PUT", path, {"value": {**value, "ended_at": "2025-01-01T00:00:00+00:00"}, "expires_at": None})


@contextmanager
def without_scheduler(lab: Lab) -> Iterator[None]:
    """No scheduler, no worker and no task for the length of the block."""
    lab.stack.kill_all("scheduler")
    try:
        yield
    finally:
        lab.stack.restart("scheduler")


def alive(marks: Marks) -> list[int]:
    return [pid for pid in marks.pids if pid in processes.living()]


def test_the_dag_sweeps_by_itself(lab: Lab) -> None:
    """With the credential of its own task, and nobody else's."""

    run_id = lab.airflow("POST", "/dags/nemo-sweep/dagRuns", {"logical_date": None})["dag_run_id"]

    def state() -> str | None:
        found: str = lab.airflow("GET", f"/dags/nemo-sweep/dagRuns/{run_id}")["state"]
        return found if found in ("success", "failed") else None

    assert wait_until(state, 200, "the end of a sweep") == "success", lab.describe()


@pytest.mark.parametrize("token", [None, "nemo-sweep.YQ.YQ.secret", "nemo-sweep..", "eyJhbGciOiJIUzUxMiJ9.e30.x"])
@pytest.mark.parametrize("path", ["chores", "standings", "endings"])
def test_its_routes_are_closed(lab: Lab, path: str, token: str | None) -> None:
    """Also to an administrator, whom this Airflow takes everybody for."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = lab.http.post(
        f"/apis/jobs/internal/sweep/{path}", json={"installation": "x", "jobs": [], "endings": []}, headers=headers
    )
    assert answer.status_code == 401


def test_what_lives_is_left_alone(lab: Lab, sweep: Sweep) -> None:
    """A workload whose worker is lost will be adopted: the sweep must not end it, whatever Airflow calls the task."""
    marks = lab.marks()
    job = lab.submit("lives", step("work", counting(marks)))
    job.wait_for_line("line 3")
    sweep()
    with without_scheduler(lab):
        sweep()
        sweep()
        assert len(alive(marks)) == 1
    marks.enough.touch()
    job.wait("completed", timeout_seconds=180)
    sweep()
    messages = job.messages()
    assert len(marks.pids) == 1
    assert messages[:-1] == numbered(len(messages) - 1)
    assert folder(job), "a finished step's directory is kept for its TTL"


def test_a_step_that_nobody_watches_is_ended_and_told(lab: Lab, sweep: Sweep) -> None:
    """Marked failed in Airflow while no process of Airflow could hear it: stopped, its last words stored, its end told,
    and then removed."""
    marks = lab.marks()
    job = lab.submit("unwatched", step("work", polite(marks, 600)))
    job.wait_for_line("up")
    with without_scheduler(lab):
        lab.airflow("PATCH", job.run_path, {"state": "failed"})
        assert sweep() == {} or len(alive(marks)) == 1, "its runner may be at its last words"
        age(lab, job, 20)
        found = sweep()
        assert not alive(marks)
        assert (found["stopped"], found["settled"]) == (1, 1)
        assert job.messages() == ["up", "bye"]
        ended = job.get()
        assert ended["status"] == "cancelled"
        assert ended["status_details"]["message"] == "Job was cancelled with exit code 0"
        assert ended["status_details"]["exit_code"] == 0
        assert sweep() == {}, "twice is harmless, and there is nothing to tell twice"
        task = job.get("/steps/work/tasks")["data"][0]
        assert task["status"] == "cancelled"


def test_a_job_without_a_slot_that_is_marked_in_airflow_leaves_nothing(lab: Lab, sweep: Sweep) -> None:
    """It is paused, so nobody hears of the mark; a frozen workload cannot even end by itself."""
    marks = [lab.marks() for _ in range(3)]
    profiles = ("freezing", "freezing", "default")
    jobs = [
        lab.submit("marked", step("work", polite(mark, 600), profile))
        for mark, profile in zip(marks, profiles, strict=True)
    ]
    for job in jobs:
        job.wait_for_line("up")
        job.pause()
    for job, state in zip(jobs, ("failed", "success", "failed"), strict=True):
        job.wait_parked("work")
        lab.airflow("PATCH", job.run_path, {"state": state})
    frozen, _, stopped = jobs
    assert frozen.get()["status"] in ("cancelling", "cancelled")
    assert stopped.get()["status"] == "cancelled", "nothing of it was alive"
    for job in jobs:
        age(lab, job, 20)
    sweep()
    assert not any(alive(mark) for mark in marks)
    assert [job.get()["status"] for job in jobs] == ["cancelled", "completed", "cancelled"]
    assert [job.messages() for job in jobs] == [["up", "bye"]] * 3
    for job in jobs:
        assert lab.http.delete(job.url).status_code == 204
    sweep()
    assert [folder(job) for job in jobs] == [[]] * 3


def test_ttl_after_the_end(lab: Lab, sweep: Sweep) -> None:
    """The work directory goes when its time is over; what jobs shared goes with the job."""
    store = "import os; open(os.environ['NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH'] + '/x', 'w').write('x')"
    job = lab.submit("ttl", step("work", python(store, "print('done')")))
    job.wait("completed")
    sweep()
    assert (folder(job)[0] / "job-storage" / "x").exists()
    age_record(lab, job)
    sweep()
    assert sorted(path.name for path in folder(job)[0].iterdir()) == [".installation", "job-storage"]
    age(lab, job, 3601)
    sweep()
    assert folder(job) == []
    assert job.messages() == ["done"], "the log stays with the job"


def test_a_deleted_job_goes_for_good(lab: Lab, sweep: Sweep) -> None:
    job = lab.submit("gone", step("work", python("print('x')")))
    job_id = job.wait("completed")["id"]
    assert lab.http.delete(job.url).status_code == 204
    sweep()
    assert folder(job) == []
    assert len(lab.runs(job.name)) == 1, "a run that ended just now may be looked at by the scheduler"
    age(lab, job, 61)
    sweep()
    assert lab.runs(job.name) == []
    assert log_files(lab, job_id) == []


def test_a_run_deleted_in_airflow_leaves_nothing(lab: Lab, sweep: Sweep) -> None:
    """Nor is a workload of it left running."""
    marks = lab.marks()
    job = lab.submit("dropped", step("work", deaf(marks), "brief"))
    job.wait_for_line("up")
    job_id = job.get()["id"]
    with without_scheduler(lab):
        lab.airflow("PATCH", job.run_path, {"state": "failed"})
        lab.airflow("DELETE", job.run_path)
        assert sweep()["stopped"] == 1
        wait_until(lambda: not alive(marks), 60, "the end of the workload")
        assert sweep()["removed"] == 1
    assert folder(job) == []
    assert log_files(lab, job_id) == []


def test_another_installations_workloads_are_not_touched(lab: Lab, sweep: Sweep) -> None:
    """They look like leftovers: Airflow knows no such run."""
    theirs = lab.stack.home / "workloads" / "default" / "theirs.2NEpo7TZRRrLZSi2U"
    (theirs / "job-storage").mkdir(parents=True)
    (theirs / ".installation").symlink_to("00000000deadbeef")
    nobodys = theirs.with_name("nobodys.2NEpo7TZRRrLZSi2U")
    nobodys.mkdir()
    sweep()
    assert theirs.exists()
    assert nobodys.exists()


def test_another_databases_storage_is_not_touched(lab: Lab, tmp_path: Path) -> None:
    """A copy of an Airflow that was given the same storage by mistake would take everything there for left behind."""
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "installation").write_text("00000000deadbeef")
    (storage / "installation.claimed").write_text("")
    assert command(lab).returncode == 0
    done = command(lab, AIRFLOW__NEMO__STORAGE=str(storage))
    assert done.returncode == 1
    assert "belongs to another installation" in done.stderr


def test_an_unused_shape_is_retired_and_comes_back(lab: Lab, sweep: Sweep) -> None:
    """Its jobs stay to be read, and to be run again on Airflow's pages; with the last of them its DAG goes."""
    job = lab.submit("shape", step("seldom", python("print('x')")))
    job.wait("completed")
    dag_id = lab.runs(job.name)[0]["dag_id"]
    with lab.database() as database:
        for statement in (
            "UPDATE dag_version SET created_at = '2025-01-01 00:00:00+00:00' WHERE dag_id = :dag",
            "UPDATE dag_run SET end_date = '2025-01-02 00:00:00+00:00' WHERE dag_id = :dag",
        ):
            database.execute(text(statement), {"dag": dag_id})
    sweep()
    assert lab.http.get(f"/api/v2/variables/nemo.shape.{dag_id}").status_code == 200, "a job was made lately"
    with lab.database() as database:
        database.execute(
            text("UPDATE dag_run SET run_after = '2025-01-02 00:00:00+00:00' WHERE dag_id = :dag"), {"dag": dag_id}
        )
    sweep()
    assert lab.http.get(f"/api/v2/variables/nemo.shape.{dag_id}").status_code == 404
    assert job.get()["status"] == "completed"
    again = lab.submit("again", step("seldom", python("print('y')")))
    again.wait("completed", timeout_seconds=120)
    assert lab.runs(again.name)[0]["dag_id"] == dag_id
    with lab.database() as database:
        past = "run_after = '2025-01-02 00:00:00+00:00', end_date = '2025-01-02 00:00:00+00:00'"
        database.execute(text(f"UPDATE dag_run SET {past} WHERE dag_id = :dag"), {"dag": dag_id})
    sweep()
    assert lab.http.get(f"/api/v2/variables/nemo.shape.{dag_id}").status_code == 404
    with lab.database() as database:
        # As it is some minutes later. Nothing is to run before the DAG file has been read anew.
        database.execute(text("UPDATE dag SET is_stale = true, is_paused = true WHERE dag_id = :dag"), {"dag": dag_id})
    lab.airflow("POST", f"{job.run_path}/clear", {"dry_run": False})
    assert job.get()["status"] not in ("completed", "error", "cancelled")
    sweep()
    wait_until(lambda: not lab.airflow("GET", f"/dags/{dag_id}")["is_stale"], 60, "the DAG to come back")
    lab.airflow("PATCH", f"/dags/{dag_id}", {"is_paused": False})
    job.wait("completed", timeout_seconds=120)
    assert job.task("seldom")["try_number"] == 2


def test_a_cancel_that_nobody_obeys_is_ended(lab: Lab, sweep: Sweep) -> None:
    marks = lab.marks()
    job = lab.submit("ignored", step("work", polite(marks, 600)))
    job.wait_for_line("up")
    with without_scheduler(lab):
        job.cancel()
        sweep()
        assert job.get()["status"] == "cancelling"
        assert len(alive(marks)) == 1, "its next try is to stop it"
        path = f"{job.run_path}/taskInstances/work/state-store/intent"
        value = lab.airflow("GET", path)["value"]
        lab.airflow("PUT", path, {"value": {**value, "at": "2026-01-01T00:00:00+00:00"}, "expires_at": None})
        assert sweep()["cancels_ended"] == 1
        age(lab, job, 20)
        sweep()
        assert not alive(marks)
        assert job.wait("cancelled")["status_details"]["cancelled_by"]
        assert job.messages() == ["up", "bye"]
