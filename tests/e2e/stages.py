"""Jobs that stand still at a stage of their life while something is killed, and what must be true of them afterwards.

Nothing here waits for a time: each stage is held by something that can be seen, and left when the test says so.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nemo_airflow_provider import processes
from tests.e2e.lab import Job, Lab, Marks, counting, in_parallel, numbered, reluctant, step
from tests.stack.airflow import wait_until


@dataclass
class Staged:
    """A job that counts, and how far it has been taken.

    :param frozen: processes that the stage has stopped
    :param ends: the status it must end with
    :param found: see `worker`
    """

    job: Job
    marks: Marks
    stage: str
    frozen: list[int] = field(default_factory=list)
    ends: str = "completed"
    found: tuple[int, int] | None = None

    def worker(self) -> tuple[int, int]:
        """The process that supervises the task, and the task's own, as they were found at first."""
        self.found = self.found or wait_until(
            lambda: self.job.worker("work"), 60, f"the task process of {self.job.name}"
        )
        assert self.found
        return self.found

    def freeze(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            self.frozen.append(pid)

    def thaw(self) -> None:
        """Let go on what the stage has stopped and what still lives."""
        while self.frozen:
            processes.send(self.frozen.pop(), signal.SIGCONT)

    def assert_right(self, timeout_seconds: float = 120) -> None:
        """Let it end: as it must, every line there once, from one execution, and nothing left."""
        self.marks.enough.touch()
        self.job.wait(self.ends, timeout_seconds=timeout_seconds)
        assert_whole(self.job)
        assert len(self.marks.pids) == 1, self.stage
        self.job.wait_gone()


def assert_whole(job: Job) -> None:
    """The log is that of one execution that ended by itself."""
    *counted, end = job.messages()
    assert counted == numbered(len(counted)), job.name
    assert end == f"the end {len(counted)}", job.name


def queued(lab: Lab) -> Staged:
    """Airflow has no room for it yet."""
    staged = _submit(lab, "queued", "gated")
    wait_until(lambda: staged.job.task("work")["state"] == "scheduled", 60, "the scheduler")
    return staged


def at_work(lab: Lab, profile: str = "default") -> Staged:
    """In the middle of its output."""
    staged = _submit(lab, "at-work", profile)
    staged.job.wait_for_line("line 20")
    return staged


def stopping(lab: Lab) -> Staged:
    """Cancelled, with a command that takes its time."""
    staged = _told_to_stop(lab, "stopping", Job.cancel)
    staged.ends = "cancelled"
    return staged


def told_to_stop_by_clear(lab: Lab) -> Staged:
    """Cleared, with a command that takes its time."""
    return _told_to_stop(lab, "cleared", clear)


def paused(lab: Lab, profile: str = "default") -> Staged:
    """Paused for so long that its task has given its slot back."""
    staged = at_work(lab, profile)
    staged.job.pause()
    staged.job.wait("paused")
    staged.job.wait_parked("work")
    return staged


def unread(lab: Lab) -> Staged:
    """Its command has ended, and its task process has not seen that."""
    staged = _submit(lab, "unread")
    staged.job.wait_for_line("line 5")
    staged.freeze(staged.worker()[1])
    _end_command(staged)
    return staged


def unreported(lab: Lab) -> Staged:
    """Its output is stored, and its task process cannot tell Airflow."""
    staged = _submit(lab, "unreported")
    staged.job.wait_for_line("line 5")
    staged.freeze(staged.worker()[0])
    _end_command(staged)
    wait_until(lambda: staged.job.messages()[-1].startswith("the end"), 60, "the last line")
    return staged


def starting(files: int) -> Callable[[Lab], Staged]:
    """Its task process has just left so many files and directories of a workload."""

    def reach(lab: Lab) -> Staged:
        staged = _submit(lab, f"starting-{files}")
        staged.worker()
        deadline = time.monotonic() + 60
        # Almost without pauses: the moments looked for are milliseconds apart.
        while len(list((lab.stack.home / "workloads" / "default").glob(f"{staged.job.name}.*/**/*"))) < files:
            assert time.monotonic() < deadline, f"no {files} files of {staged.job.name}"
            time.sleep(0.001)
        return staged

    return reach


def clear(job: Job, *tasks: str) -> None:
    """Clear steps and what comes after them; without steps, the run."""
    if not tasks:
        job.lab.airflow("POST", f"{job.run_path}/clear", {"dry_run": False})
        return
    dag, run = job.run_path.split("/")[2::2]
    body: dict[str, Any] = {
        "dry_run": False,
        "dag_run_id": run,
        "task_ids": list(tasks),
        "only_failed": False,
        "include_downstream": True,
        "reset_dag_runs": True,
    }
    job.lab.airflow("POST", f"/dags/{dag}/clearTaskInstances", body)


@contextmanager
def staged_jobs(
    lab: Lab, stages: Sequence[Callable[[Lab], Staged]], act: Callable[[Staged], None] = lambda _: None
) -> Iterator[list[Staged]]:
    """One job a stage, all at once; what is frozen or waits at the gate is let go at the end.

    :param act: done with each at the moment its stage is reached
    """
    reached: list[Staged] = []

    def reach(stage: Callable[[Lab], Staged]) -> Staged:
        staged = stage(lab)
        reached.append(staged)
        act(staged)
        return staged

    try:
        yield in_parallel(partial(reach, stage) for stage in stages)
    finally:
        for staged in reached:
            staged.thaw()
            staged.marks.enough.touch()


def _submit(lab: Lab, stage: str, profile: str = "default", command: Callable[[Marks], list[str]] = counting) -> Staged:
    marks = lab.marks()
    return Staged(lab.submit(stage, step("work", command(marks), profile)), marks, stage)


def _told_to_stop(lab: Lab, stage: str, ask: Callable[[Job], object]) -> Staged:
    staged = _submit(lab, stage, "patient", reluctant)
    staged.job.wait_for_line("line 5")
    ask(staged.job)
    wait_until(staged.marks.told.exists, 60, "the command to be told")
    return staged


def _end_command(staged: Staged) -> None:
    staged.marks.enough.touch()
    staged.job.wait_gone()
