"""What every backend owes to whole jobs: one suite, run with each (`tests/contract/jobs.py`)."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsPause
from tests.contract.jobs import JOB_HARNESSES, Gate, JobHarness
from tests.e2e.lab import Job, Lab, numbered
from tests.e2e.stages import clear
from tests.stack import engines
from tests.stack.airflow import wait_until

SECRET = "contract-secret-value"

#: At SIGTERM it says so, and ends in its own way.
POLITE = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"


def counting(gate: Gate) -> str:
    """Prints `line 0`, `line 1` … until the gate is open."""
    return f'i=0; until {gate.condition}; do echo "line $i"; i=$((i+1)); sleep 0.05; done; echo "the end $i"'


@pytest.fixture(scope="module", params=sorted(JOB_HARNESSES))
def backend(request: pytest.FixtureRequest, lab: Lab) -> JobHarness:
    found = JOB_HARNESSES[request.param]
    if found.engine:
        engines.require(found.engine)
    return found(lab)


def submit(backend: JobHarness, head: str, script: str, role: str = "default") -> Job:
    return backend.lab.submit(head, backend.step("work", script, role))


def finish(backend: JobHarness, job: Job, *statuses: str) -> None:
    job.wait(*(statuses or ("completed",)), timeout_seconds=2 * backend.seconds)
    wait_until(lambda: not backend.alive(job), backend.seconds, f"the end of what {job.name} runs")


def assert_counted(messages: list[str]) -> None:
    *counted, end = messages
    assert counted == numbered(len(counted))
    assert end == f"the end {len(counted)}"


def test_a_job_completes(backend: JobHarness) -> None:
    job = submit(backend, "done", "echo out; sleep 0.1; echo err >&2")
    finish(backend, job)
    second = "stderr" if backend.has_streams else "stdout"
    assert [(row["stream"], row["job_step"]) for row in job.rows()] == [("stdout", "work"), (second, "work")]
    [work] = job.steps()
    [task] = work["tasks"]
    assert work["status"] == task["status"] == "completed"
    assert work["error_details"] == {}
    assert task["error_stack"] is None


def test_an_exit_code_is_an_error_with_its_reason(backend: JobHarness) -> None:
    job = backend.lab.submit(
        "fails", backend.step("work", "echo about to fail; exit 3"), backend.step("never", "echo never")
    )
    finish(backend, job, "error")
    [work] = job.steps()
    assert work["error_details"]["exit_code"] == job.get()["error_details"]["exit_code"] == 3
    assert "3" in work["status_details"]["message"]
    assert work["tasks"][0]["error_stack"] == "about to fail"
    assert job.messages() == ["about to fail"]


def test_much_output_is_whole_in_pages_of_any_size(backend: JobHarness) -> None:
    job = submit(backend, "many", 'i=0; while [ $i -lt 5000 ]; do echo "line $i"; i=$((i+1)); done')
    finish(backend, job)
    for limit in (613, 1000, 5000):
        assert job.messages(limit) == numbered(5000)
    page = job.get("/logs", tail=3)
    assert [row["message"] for row in page["data"]] == numbered(5000)[-3:]


def test_environment_configuration_and_secret(backend: JobHarness) -> None:
    name = backend.lab.name("contract")
    backend.lab.airflow("POST", "/variables", {"key": f"nemo_secret.default.{name}", "value": SECRET})
    try:
        job = backend.lab.submit(
            "environment",
            backend.step(
                "work",
                'echo "$NEMO_JOB_ID|$NEMO_JOB_STEP|$MINE|${#TOKEN}|$TOKEN"; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"',
                environment=[
                    {"name": "MINE", "value": "two words"},
                    {"name": "TOKEN", "from_secret": {"name": name}},
                ],
                config={"epochs": 3},
            ),
        )
        finish(backend, job)
    finally:
        backend.lab.airflow("DELETE", f"/variables/nemo_secret.default.{name}")
    first, config = job.messages()
    assert first.startswith(f"{job.name}|work|two words|{len(SECRET)}|")
    assert SECRET not in first
    assert config == '{"epochs": 3}'


def test_job_storage_goes_from_step_to_step_and_to_nobody_else(backend: JobHarness) -> None:
    storage = '"$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"/model'
    job = backend.lab.submit(
        "storage",
        backend.step("train", f"echo weights > {storage}"),
        backend.step("evaluate", f"cat {storage}"),
    )
    finish(backend, job)
    assert job.messages() == ["weights"]
    other = submit(backend, "other", f"test ! -e {storage}")
    finish(backend, other)


def test_cancel_is_graceful(backend: JobHarness) -> None:
    job = submit(backend, "cancel", POLITE)
    job.wait_for_line("up")
    job.cancel()
    finish(backend, job, "cancelled")
    # On stderr a shell may say that its `sleep` was told too.
    assert [row["message"] for row in job.rows() if row["stream"] == "stdout"] == ["up", "bye"]


def test_the_active_time_limit(backend: JobHarness) -> None:
    job = submit(backend, "limit", POLITE, "limited")
    finish(backend, job, "error")
    assert job.get()["error_details"]["message"] == "Job timed out after reaching max TTL of 2 seconds"
    assert job.messages()[0] == "up"


def test_a_killed_task_is_followed_by_one_that_goes_on(backend: JobHarness) -> None:
    gate = backend.gate()
    job = submit(backend, "killed", counting(gate))
    job.wait_for_line("line 5")
    job.kill_task("work")
    wait_until(lambda: job.task("work")["try_number"] == 2, 60, "the second try")
    gate.open()
    finish(backend, job)
    assert_counted(job.messages())


def test_a_rerun_is_a_workload_of_its_own(backend: JobHarness) -> None:
    job = submit(backend, "rerun", 'echo "$NEMO_JOB_ATTEMPT_ID $NEMO_JOB_TASK"')
    finish(backend, job)
    first = job.get()["attempt_id"]
    before = job.messages()
    clear(job)
    wait_until(lambda: job.messages() not in ([], before), 2 * backend.seconds, "the second attempt")
    finish(backend, job)
    assert job.get()["attempt_id"] != first
    [line] = job.messages()
    [task] = job.steps()[0]["tasks"]
    assert line == f"{job.get()['attempt_id']} {task['name']}"
    assert [row["message"] for row in job.get("/logs", attempt_id=first)["data"]] == before


def test_cleared_at_work(backend: JobHarness) -> None:
    """The old workload ends in its own way before the new one begins."""
    gate = backend.gate()
    job = submit(backend, "cleared", f"if {gate.condition}; then echo again; else {POLITE}; fi")
    job.wait_for_line("up")
    first = job.get()["attempt_id"]
    gate.open()
    clear(job)
    wait_until(lambda: job.get()["attempt_id"] != first, 60, "the second attempt")
    finish(backend, job)
    assert job.messages() == ["again"]
    before = [row["message"] for row in job.get("/logs", attempt_id=first)["data"] if row["stream"] == "stdout"]
    assert before == ["up", "bye"]


def test_a_deleted_job_leaves_nothing(backend: JobHarness) -> None:
    """Its workloads and its storage go with the next sweep."""
    job = submit(backend, "deleted", 'echo kept > "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/file"; exit 1')
    finish(backend, job, "error")
    assert backend.left(job)
    assert backend.lab.http.delete(job.url).status_code == 204
    backend.lab.airflow("POST", "/dags/nemo-sweep/dagRuns", {"logical_date": None})
    wait_until(lambda: not backend.left(job), 200, f"the end of what {job.name} has left")


def test_a_pause_keeps_the_jobs_storage(backend: JobHarness) -> None:
    if not backend.has(SupportsPause):
        pytest.skip("it lacks the power to pause")
    gate = backend.gate()
    keep = (
        'echo x >> "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts"; cat "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts"'
    )
    job = submit(backend, "pause", f"trap 'exit 143' TERM; {keep}; echo begun; {counting(gate)}")
    for starts in range(1, 3):
        wait_until(lambda: job.messages().count("begun") == starts, backend.seconds, f"start {starts}")  # noqa: B023
        job.pause()
        finish(backend, job, "paused")
        stored = job.messages()
        if starts == 2:
            gate.open()
        job.resume()
    finish(backend, job)
    assert job.messages() == [*stored, "x", "x", "x", "begun", "the end 0"]


def test_a_frozen_workload_goes_on(backend: JobHarness) -> None:
    if not backend.has(SupportsFreeze):
        pytest.skip("it lacks the power to freeze")
    gate = backend.gate()
    job = submit(backend, "freeze", counting(gate), "freezing")
    job.wait_for_line("line 5")
    job.pause()
    job.wait("paused")
    gate.open()
    assert backend.alive(job)
    job.resume()
    finish(backend, job)
    assert_counted(job.messages())
