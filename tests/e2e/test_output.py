"""Everything a command may print, through the pages of the jobs API and in Airflow's task log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.e2e.conftest import TASK_LOG_LINES
from tests.e2e.lab import Job, Lab, numbered, python, step
from tests.stack.airflow import wait_until

MANY = 300_000
LONG = 8 * 1024 * 1024

COMMANDS = {
    "bytes": python("import os", "os.write(1, b'caf\\xe9 \\xff\\n')", "print('next')"),
    "split": python(
        "import os, time", "os.write(1, b'caf\\xc3')", "time.sleep(0.4)", "os.write(1, b'\\xa9\\n')", "print('next')"
    ),
    "progress": python("for i in range(101): print(f'\\r{i}%', end='')", "print('\\ndone')"),
    "empty": python("print('a\\n\\n\\nb')", "print()", "print('c', end='')"),
    "long": python(f"print('x' * {LONG})", "print('next')"),
    "many": python("import sys", f"sys.stdout.write(''.join(f'line {{i}}\\n' for i in range({MANY})))"),
    "grandchild": python(
        "import subprocess",
        "subprocess.Popen(['sleep', '600'])",
        "subprocess.Popen(['sleep', '600'], start_new_session=True)",
        "print('done')",
    ),
    "errors": python("import sys", "print('out')", "print('err', file=sys.stderr)"),
}


@pytest.fixture(scope="module")
def jobs(lab: Lab) -> Mapping[str, Job]:
    """All commands at once, ended."""
    jobs = {name: lab.submit(name, step("work", command)) for name, command in COMMANDS.items()}
    for job in jobs.values():
        job.wait("completed", timeout_seconds=120)
    return jobs


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("bytes", ["caf\ufffd \ufffd", "next"]),
        ("split", ["café", "next"]),
        ("progress", ["100%", "done"]),
        ("empty", ["a", "", "", "b", "", "c"]),
        ("long", ["x" * 65536 + f" … [cut: {LONG} bytes]", "next"]),
        ("grandchild", ["done"]),
    ],
)
def test_lines(jobs: Mapping[str, Job], name: str, messages: list[str]) -> None:
    assert jobs[name].messages() == messages
    assert not jobs[name].workloads()


def test_many_lines_at_once(jobs: Mapping[str, Job]) -> None:
    assert jobs["many"].messages(10_000) == numbered(MANY)
    page = jobs["many"].get("/logs", tail=3)
    assert [row["message"] for row in page["data"]] == numbered(MANY)[-3:]
    assert page["total"] == MANY


def test_stderr_is_marked(jobs: Mapping[str, Job]) -> None:
    rows = {row["stream"]: row for row in jobs["errors"].rows()}
    assert rows["stdout"]["message"] == "out"
    assert rows["stderr"]["message"] == "[stderr] err"
    assert {row["job_step"] for row in rows.values()} == {"work"}


def test_airflows_log_is_live_and_bounded(lab: Lab) -> None:
    gate = lab.marks()
    job = lab.submit(
        "mirror",
        step(
            "work",
            python(
                "import os, time",
                "for i in range(5): print(f'line {i}')",
                f"while not os.path.exists({str(gate.path)!r}): time.sleep(0.05)",
                "for i in range(5, 300): print(f'line {i}')",
            ),
        ),
    )

    def shown() -> list[dict[str, object]]:
        return [entry for entry in job.task_log("work") if "seq" in entry]

    job.wait_for_line("line 4")  # Airflow has no log of a step that has not started
    wait_until(lambda: len(shown()) == 5, 60, "the first lines in Airflow's log")
    assert job.get()["status"] == "active"
    gate.path.touch()
    job.wait("completed")
    rows = list(job.rows())
    wanted = rows[:TASK_LOG_LINES] + rows[-TASK_LOG_LINES:]
    mirrored = shown()
    assert [entry["event"] for entry in mirrored] == [row["message"] for row in wanted]
    assert [str(entry["timestamp"]).replace("Z", "+00:00") for entry in mirrored] == [
        row["timestamp"] for row in wanted
    ]
    hint = [entry["event"] for entry in job.task_log("work") if "nemo jobs get-logs" in str(entry["event"])]
    assert hint == [
        f"200 of 300 lines are not shown here. Read them all with: nemo jobs get-logs {job.name} "
        "--workspace default --step-id work --all-pages"
    ]
