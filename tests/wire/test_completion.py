"""What a shell offers, out of a real Airflow."""

from __future__ import annotations

import pytest

from tests.shells import answer, offers
from tests.stack import AirflowStack
from tests.wire.jobs import LONG, Jobs


@pytest.fixture
def two(jobs: Jobs) -> Jobs:
    """`shell-ended` with two steps, and after it `shell-live`, which begins a step."""
    jobs.run("shell-ended", "true", "true")
    jobs.create("shell-live", LONG)
    jobs.wait("shell-live", "active")
    return jobs


def test_jobs_steps_and_tasks(sqlite_stack: AirflowStack, two: Jobs) -> None:
    def offered(line: str) -> dict[str, str]:
        ended = answer("fish", f"nemo --base-url {sqlite_stack.url} jobs {line}")
        assert (ended.returncode, ended.stderr) == (0, "")
        return offers(ended.stdout)

    assert list(offered("get shell-")) == ["shell-live", "shell-ended"]
    assert list(offered("cancel shell-")) == ["shell-live"]
    assert list(offered("delete shell-")) == ["shell-ended"]
    assert list(offered("get no-such-")) == []
    assert list(offered("get --workspace no-such ")) == []
    assert offered("cancel shell-")["shell-live"].startswith("active, ")
    assert {step: said.partition(",")[0] for step, said in offered("get-logs shell-ended --step-id ").items()} == {
        "one": "completed",
        "two": "completed",
    }
    (task,) = two.status("shell-live")["steps"][0]["tasks"]
    assert list(offered("tasks get --job shell-live --step one ")) == [task["name"]]
    two.cancel("shell-live")
    two.wait("shell-live", "cancelled")
