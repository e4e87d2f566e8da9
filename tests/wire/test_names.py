"""Names that Airflow itself would refuse, in every path."""

from __future__ import annotations

import json

import pytest

from tests.wire.jobs import Jobs, answered, fresh, step

ODD = ["a@b.c+d_e-f", "a..b", "scheduled__x", "manual__2026-12-01", "platform-job-3x", "x+not"]


@pytest.fixture(scope="module")
def odd_jobs(jobs: Jobs) -> dict[str, str]:
    """Completed jobs by odd name; each with a step of that name."""
    made = {odd: f"{odd}{fresh('.')}" for odd in ODD}
    for odd, name in made.items():
        answered(
            jobs.post(
                {
                    "name": name,
                    "source": odd,
                    "spec": {},
                    "platform_spec": {"steps": [step(odd, f"echo {odd}")]},
                }
            ),
            201,
        )
    for name in made.values():
        jobs.wait(name, "completed")
    return made


@pytest.mark.parametrize("odd", ODD)
def test_a_name_works_in_every_path(jobs: Jobs, odd_jobs: dict[str, str], odd: str) -> None:
    name = odd_jobs[odd]
    job = jobs.job(name)
    assert (job["name"], job["fileset"]) == (name, f"job-fileset-{name}")
    assert [item["name"] for item in jobs.status(name)["steps"]] == [odd]
    (row,) = jobs.log(name, step_id=odd)["data"]
    assert (row["job"], row["job_step"], row["message"]) == (name, odd, odd)
    (listed,) = jobs.list(filter=json.dumps({"name": name}))["data"]
    assert listed["id"] == job["id"]
    (listed_step,) = answered(jobs.get(name, "steps"))["data"]
    assert (listed_step["job"], listed_step["name"]) == (name, odd)
    assert answered(jobs.get(name, "steps", odd))["config"] == {"_step_spec_name": odd}
    (task,) = answered(jobs.get(name, "steps", odd, "tasks"))["data"]
    assert answered(jobs.get(name, "steps", odd, "tasks", task["name"])) == task
    assert jobs.cancel(name)["name"] == name
    # A client need not quote what a path segment allows.
    assert answered(jobs.http.get(f"{jobs.url()}/{name}/status"))["name"] == name
    jobs.delete(name)


def test_names_of_every_length(jobs: Jobs) -> None:
    for name in ("zz", "z" * 51):
        jobs.create(name, "true")
        jobs.wait(name, "completed")
        jobs.delete(name)
