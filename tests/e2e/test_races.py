"""Many callers at once, on two API workers."""

from __future__ import annotations

import secrets
from collections import Counter

import pytest

from tests.e2e.lab import JOBS, TERMINAL, Job, Lab, in_parallel, python, step
from tests.stack.airflow import wait_until

pytestmark = pytest.mark.needs("postgres")


def test_one_name_over_five_new_shapes_is_one_job(lab: Lab) -> None:
    name, marks, tail = lab.name("same"), lab.marks(), secrets.token_hex(3)
    steps = [step(f"s{number}-{tail}", python(marks.code)) for number in range(5)]
    answers = in_parallel(lambda one=one: lab.create(name, one) for one in steps * 10)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    refused = [answer for answer in answers if answer.status_code == 409]
    assert {answer.json()["detail"] for answer in refused} == {
        f"Job '{name}' already exists in workspace 'default'. Choose a different job name or delete the existing "
        "job before creating a new one."
    }
    assert {answer.headers.get("x-should-retry") for answer in refused} == {"false"}
    Job(lab, name).wait("completed")
    assert len(lab.runs(name)) == 1
    assert len(marks.pids) == 1


def test_many_names_over_new_shapes_all_run(lab: Lab) -> None:
    tail = secrets.token_hex(3)
    names = [lab.name("many") for _ in range(30)]
    answers = in_parallel(
        lambda name=name, number=number: lab.create(name, step(f"m{number}-{tail}", python(f"print({number})")))
        for number, name in enumerate(names)
    )
    assert Counter(answer.status_code for answer in answers) == {201: 30}
    for number, name in enumerate(names):
        job = Job(lab, name)
        job.wait("completed", timeout_seconds=120)
        assert job.messages() == [str(number)]


def test_create_cancel_and_delete_at_once_end_legally(lab: Lab) -> None:
    names = [lab.name("mixed") for _ in range(4)]
    body = step("work", python("import time", "time.sleep(0.3)"))

    def create(job: Job) -> int:
        return lab.create(job.name, body).status_code

    def cancel(job: Job) -> int:
        return lab.http.post(f"{job.url}/cancel").status_code

    def delete(job: Job) -> int:
        return lab.http.delete(job.url).status_code

    def read(job: Job) -> int:
        return lab.http.get(f"{job.url}/status").status_code

    def repeat(verb: object, job: Job, times: int) -> set[int]:
        return {verb(job) for _ in range(times)}  # type: ignore[operator]

    verbs = [(create, 8), (create, 8), (cancel, 20), (delete, 20), (read, 20)]
    answers = in_parallel(
        lambda verb=verb, times=times, name=name: (verb.__name__, repeat(verb, Job(lab, name), times))
        for verb, times in verbs
        for name in names
    )
    legal = {"create": {201, 409}, "cancel": {200, 404}, "delete": {204, 404, 409}, "read": {200, 404}}
    assert {(verb, code) for verb, codes in answers for code in codes - legal[verb]} == set()
    for name in names:
        job = Job(lab, name)
        if lab.http.get(job.url).status_code == 200:
            assert job.wait(timeout_seconds=60)["status"] in TERMINAL
        job.wait_gone()
        assert len({run["dag_run_id"] for run in lab.runs(name)}) == len(lab.runs(name))
    listed = lab.http.get(JOBS, params={"page_size": 1000}).json()["data"]
    assert all(count == 1 for count in Counter(job["name"] for job in listed).values())


def test_a_run_made_by_hand_with_a_live_jobs_run_id_leaves_the_job_alone(lab: Lab) -> None:
    """Airflow allows a run id once in every DAG."""
    gate, tail = lab.marks(), secrets.token_hex(3)
    storage = "storage = os.environ['NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH'] + '/model'"
    waiting = python(
        "import os, time",
        storage,
        "open(storage, 'w').write('mine')",
        "print('up')",
        f"while not os.path.exists({str(gate.path)!r}): time.sleep(0.05)",
        "assert open(storage).read() == 'mine'",
    )
    job = lab.submit("twin", step("work", waiting))
    fresh = python("import os", storage, "assert not os.path.exists(storage)")
    other = lab.submit("other", step("work", fresh), step(f"s-{tail}", python("pass")))
    other.wait("completed")
    job.wait_for_line("up")
    mine, dag = job.run_path, other.run_path.split("/")[2]
    conf = lab.airflow("GET", other.run_path)["conf"]
    lab.airflow("POST", f"/dags/{dag}/dagRuns", {"logical_date": None, "dag_run_id": job.name, "conf": conf})
    wait_until(
        lambda: state(lab, f"/dags/{dag}/dagRuns/{job.name}") == "success", 60, "the end of the run made by hand"
    )
    assert job.workloads()
    gate.path.touch()
    wait_until(lambda: state(lab, mine) == "success", 60, "the end of the job")


def state(lab: Lab, run_path: str) -> str:
    return str(lab.airflow("GET", run_path)["state"])
