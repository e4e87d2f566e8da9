"""A workload that fails by itself is started again as often as is allowed; its result is handed back once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase, Workload
from nemo_airflow_provider.backends.config import ContainerConfig
from nemo_airflow_provider.backends.powers import SupportsResultFile
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import now, parse_record, result_key, step_key
from nemo_airflow_provider.model.spec import EnvironmentItem
from nemo_airflow_provider.model.status import Action, Status
from nemo_airflow_provider.runner import Repeats, StepFailed, StepLeft, StepTask, Timing, repeat, run_step
from nemo_airflow_provider.runner.result import MOST_BYTES
from tests.unit.runner.fakes import FakeBackend, FakeHost, Process, ended, step_task

TIMING = Timing(intent=0.01, intent_later=0.01, engine=0.01)


class PlatformConfig(ContainerConfig):
    """The keys of backends whose platform may fail."""


def failing(backend: FakeBackend, times: int, code: int = 3) -> None:
    """Let the first starts fail; each says which it is."""

    def submit(workload: Workload) -> Process:
        number = workload.key.start
        return ended(code if number < times else 0, f"start {number}\n".encode())

    backend.on_submit = submit


def repeating(backend: FakeBackend, storage: Path, times: int, first_delay: float = 0.0) -> StepTask:
    return replace(step_task(backend, storage), repeats=Repeats(times, first_delay))


def test_it_is_started_until_it_succeeds(tmp_path: Path) -> None:
    backend, host = FakeBackend(), FakeHost()
    failing(backend, 2)
    task = repeating(backend, tmp_path, 3)
    run_step(task, host, TIMING)
    assert [key.start for key in backend.submitted] == [0, 1, 2]
    record = host.values[step_key(0)]
    assert record["status"] == "completed"
    assert [row["status"] for row in record["tasks"]] == ["error", "error", "completed"]
    assert record["tasks"][0]["error_details"]["exit_code"] == 3
    assert record["tasks"][0]["error_stack"] == "start 0"
    assert "error_details" not in record
    lines = [line.message for line in read_from(tmp_path, task.stream, 0, 100)]
    assert lines == ["start 0", "start 1", "start 2"]
    assert "Job exited with code 3; it is started again" in host.notes


class TestPlatformFaults:
    """What is not the workload's own fault has a budget of its own, which the profile names."""

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(repeat, "_PLATFORM_SECONDS", 0.0)

    def faults(self, backend: FakeBackend, answers: list[str]) -> None:
        """How the first starts end; the others succeed."""

        def submit(workload: Workload) -> Process:
            if workload.key.start >= len(answers):
                return ended(0)
            message = "the engine was stopped"
            fault = answers[workload.key.start]
            return Process(end=Observation(Phase.ENDED, exit_code=137, message=message, fault=fault))  # type: ignore[arg-type]

        backend.on_submit = submit

    def test_whatever_its_exit_code_was(self, tmp_path: Path) -> None:
        """An engine that is stopped tells its workloads to end, and they may do so well."""
        backend, host = FakeBackend(), FakeHost()
        end = Observation(Phase.ENDED, 0, "interrupted", "the engine was stopped", fault="platform")
        backend.on_submit = lambda workload: Process(end=end) if workload.key.start == 0 else ended(0)
        self.run(backend, host, tmp_path, 0, 1)
        assert [row["status"] for row in host.values[step_key(0)]["tasks"]] == ["error", "completed"]

    def test_a_cancel_while_the_engine_is_away_again_leaves_what_failed_as_it_was(self, tmp_path: Path) -> None:
        backend, host = FakeBackend(), FakeHost()
        self.faults(backend, ["platform"])
        save = host.save

        def saving(key: str, value: Any) -> None:
            save(key, value)
            if [row["status"] for row in value["tasks"]] == ["error"] and not backend.failing:
                host.ask(Action.CANCEL)
                backend.failing["find"] = 10**9

        host.save = saving  # type: ignore[method-assign]
        task = replace(
            repeating(backend, tmp_path, 0), open_backend=lambda: (backend, PlatformConfig(platform_retries=2))
        )
        with pytest.raises(StepFailed, match="Job was cancelled; its engine does not answer"):
            run_step(task, host, replace(TIMING, intent=0.0, away=0.05))
        record = host.values[step_key(0)]
        assert (record["status"], [row["status"] for row in record["tasks"]]) == ("cancelled", ["error"])
        assert record["tasks"][0]["error_details"]["message"] == "the engine was stopped"

    def run(self, backend: FakeBackend, host: FakeHost, storage: Path, own: int, platform: int) -> None:
        config = PlatformConfig(platform_retries=platform)
        task = replace(repeating(backend, storage, own), open_backend=lambda: (backend, config))
        run_step(task, host, TIMING)

    def test_it_is_started_again(self, tmp_path: Path) -> None:
        backend, host = FakeBackend(), FakeHost()
        self.faults(backend, ["platform", "platform"])
        self.run(backend, host, tmp_path, 0, 2)
        assert [row["status"] for row in host.values[step_key(0)]["tasks"]] == ["error", "error", "completed"]
        assert "the engine was stopped; it is started again" in host.notes

    def test_until_the_budget_is_spent(self, tmp_path: Path) -> None:
        backend, host = FakeBackend(), FakeHost()
        self.faults(backend, ["platform"] * 3)
        with pytest.raises(StepFailed, match="the engine was stopped"):
            self.run(backend, host, tmp_path, 5, 2)
        assert len(backend.submitted) == 3

    def test_the_budgets_are_apart(self, tmp_path: Path) -> None:
        backend, host = FakeBackend(), FakeHost()
        self.faults(backend, ["user", "platform", "user", "platform"])
        self.run(backend, host, tmp_path, 2, 2)
        assert len(backend.submitted) == 5

    def test_faults_of_its_own_cost_none_of_it(self, tmp_path: Path) -> None:
        backend, host = FakeBackend(), FakeHost()
        self.faults(backend, ["user"])
        with pytest.raises(StepFailed):
            self.run(backend, host, tmp_path, 0, 3)
        assert len(backend.submitted) == 1


def test_it_fails_when_the_starts_are_used_up(tmp_path: Path) -> None:
    backend, host = FakeBackend(), FakeHost()
    failing(backend, 9)
    with pytest.raises(StepFailed, match="Job exited with code 3"):
        run_step(repeating(backend, tmp_path, 2), host, TIMING)
    assert [key.start for key in backend.submitted] == [0, 1, 2]
    assert host.values[step_key(0)]["status"] == "error"


@pytest.mark.parametrize(
    "end",
    [
        Observation(Phase.ENDED, exit_code=-15, stopped="ttl"),
        Observation(Phase.ENDED, exit_code=-9, stopped="signalled"),
        Observation(Phase.ENDED, exit_code=1, fault="platform"),
        Observation(Phase.LOST),
    ],
)
def test_what_it_did_not_do_itself_is_not_repeated(tmp_path: Path, end: Observation) -> None:
    backend, host = FakeBackend(), FakeHost()
    backend.on_submit = lambda _: Process(end=end)
    with pytest.raises(StepFailed):
        run_step(repeating(backend, tmp_path, 2), host, TIMING)
    assert len(backend.submitted) == 1


class LeftInThePause(FakeHost):
    """A worker that is told to go once its workload has failed."""

    def note(self, text: str) -> None:
        super().note(text)
        if "it is started again" in text:
            self.terminated.set()


def test_a_worker_lost_in_the_pause_costs_no_start(tmp_path: Path) -> None:
    backend, host = FakeBackend(), LeftInThePause()
    failing(backend, 1)
    with pytest.raises(StepLeft):
        run_step(repeating(backend, tmp_path, 1, 60), host, TIMING)
    record = host.values[step_key(0)]
    assert [row["status"] for row in record["tasks"]] == ["error"]
    assert record["status"] == "active"
    record["tasks"][0]["updated_at"] = (now() - timedelta(seconds=61)).isoformat()  # the pause is over
    again = FakeHost()
    again.values = host.values
    run_step(repeating(backend, tmp_path, 1, 60), again, TIMING)
    assert [key.start for key in backend.submitted] == [0, 1]


def test_a_cancel_ends_the_pause(tmp_path: Path) -> None:
    backend, host = FakeBackend(), FakeHost()

    def submit(workload: Workload) -> Process:
        host.ask(Action.CANCEL)
        return ended(3)

    backend.on_submit = submit
    timing = replace(TIMING, intent=0.01)
    with pytest.raises(StepFailed):
        run_step(repeating(backend, tmp_path, 5, 600), host, timing)
    assert host.values[step_key(0)]["status"] == "cancelled"
    assert len(backend.submitted) == 1


@pytest.mark.parametrize(("failed", "seconds"), [(1, 10), (2, 20), (3, 40), (6, 300), (100, 300)])
def test_the_pause_doubles_and_is_bounded(tmp_path: Path, failed: int, seconds: float) -> None:
    backend, host = FakeBackend(), FakeHost()
    failing(backend, 1)
    with pytest.raises(StepFailed):
        run_step(step_task(backend, tmp_path), host, TIMING)
    record = parse_record(host.values[step_key(0)])
    assert record is not None and record.handle is not None
    record.status = Status.ACTIVE
    [row] = record.tasks
    record.tasks = [row.model_copy(update={"start": start}) for start in range(failed)]
    record.handle.start = failed - 1
    assert Repeats(100, 10).due(record) == row.updated_at + timedelta(seconds=seconds)


def test_the_record_of_a_hundred_failures_is_one_that_airflow_takes(tmp_path: Path) -> None:
    """Beyond 65,535 bytes Airflow writes a warning into the task's log at each write."""
    backend, host = FakeBackend(), FakeHost()
    seen = Observation(Phase.ENDED, exit_code=3, details={"pod": "p" * 500}, error={"reason": "r" * 500})
    backend.on_submit = lambda workload: Process(f"{workload.key.start:03} {'😀' * 3000}\n".encode(), seen)
    with pytest.raises(StepFailed):
        run_step(repeating(backend, tmp_path, 100), host, TIMING)
    assert max(len(json.dumps(value)) for _, value in host.saved) <= 65_535
    record = parse_record(host.values[step_key(0)])
    assert record is not None
    assert [row.start for row in record.tasks] == list(range(101))
    assert {row.status_details["message"] for row in record.tasks} == {"Job exited with code 3"}
    *_, last = record.tasks
    assert len(last.error_stack or "") == 2048
    assert (last.status_details["pod"], last.error_details["reason"]) == ("p" * 500, "r" * 500)


def test_what_is_small_is_kept_whole(tmp_path: Path) -> None:
    backend, host = FakeBackend(), FakeHost()
    backend.on_submit = lambda _: ended(3, b"x" * 3000 + b"\n")
    with pytest.raises(StepFailed):
        run_step(repeating(backend, tmp_path, 9), host, TIMING)
    assert [len(row["error_stack"]) for row in host.values[step_key(0)]["tasks"]] == [2048] * 10


@pytest.mark.parametrize(("times", "delay"), [(-1, 1), (101, 1), (True, 1), ("2", 1), (1, -1), (1, None), (1, True)])
def test_what_nobody_can_ask_for(times: object, delay: object) -> None:
    with pytest.raises(InvalidJob, match="step_retr"):
        Repeats.of(times, delay)


# --- results ----------------------------------------------------------------------------------------


class WithFiles(FakeBackend, SupportsResultFile):
    """An engine that hands files back."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files
        self.read = 0

    def read_file(self, key: WorkloadKey, path: str, most_bytes: int) -> bytes | None:
        self._answer("read_file")
        self.read += 1
        data = self.files.get(path)
        return None if data is None else data[:most_bytes]


def with_file(backend: FakeBackend, storage: Path, path: str) -> StepTask:
    return replace(step_task(backend, storage, cleanup_completed_jobs_immediately=True), result_file=path)


@pytest.mark.parametrize(
    ("path", "data", "value"),
    [
        ("result.json", b'{"loss": 0.5}', {"loss": 0.5}),
        ("out/n.json", b"null", None),
        ("notes.txt", "grün\n".encode(), "grün\n"),
    ],
)
def test_a_result_is_handed_back_also_to_a_later_try(tmp_path: Path, path: str, data: bytes, value: Any) -> None:
    backend, host = WithFiles({path: data}), FakeHost()
    backend.failing["read_file"] = 2
    assert run_step(with_file(backend, tmp_path, path), host, TIMING) == value
    assert run_step(with_file(backend, tmp_path, path), host, TIMING) == value
    assert (backend.read, len(backend.cleaned)) == (1, 1)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({}, "completed, but left no result file 'r.json' below $NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH."),
        ({"r.json": b"{"}, "left a result file 'r.json' that is no JSON: "),
        ({"r.json": b"\xff"}, "left a result file 'r.json' that is no JSON: "),
        ({"r.json": b"[NaN]"}, "left a result file 'r.json' that cannot be stored: "),
        ({"r.json": json.dumps("x" * MOST_BYTES).encode()}, f"left a result file 'r.json' of more than {MOST_BYTES} b"),
    ],
)
def test_a_result_that_is_not_as_it_must_be_fails_the_step(tmp_path: Path, files: dict[str, bytes], text: str) -> None:
    host = FakeHost()
    with pytest.raises(StepFailed) as caught:
        run_step(with_file(WithFiles(files), tmp_path, "r.json"), host, TIMING)
    assert str(caught.value).startswith("Step 'train' ")
    assert text in str(caught.value)
    record = host.values[step_key(0)]
    assert (record["status"], record["error_details"]["fault"]) == ("error", "user")


def test_a_file_that_cannot_be_read_is_asked_for_no_longer_than_a_while(tmp_path: Path) -> None:
    backend, host = WithFiles({"r.json": b"1"}), FakeHost()
    backend.failing["read_file"] = 1_000_000
    text = r"Step 'train' completed, but for 0 s its result file 'r.json' could not be read: the engine is away"
    with pytest.raises(StepFailed, match=text):
        run_step(with_file(backend, tmp_path, "r.json"), host, replace(TIMING, result=0.05))
    assert 1_000_000 - backend.failing["read_file"] > 1
    assert host.values[step_key(0)]["error_details"]["fault"] == "platform"


def test_an_engine_that_hands_nothing_back(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="its execution profile hands no files back"):
        run_step(with_file(FakeBackend(), tmp_path, "r.json"), FakeHost(), TIMING)


def test_a_step_that_fails_has_no_result(tmp_path: Path) -> None:
    backend = WithFiles({})
    backend.on_submit = lambda _: ended(3)
    with pytest.raises(StepFailed, match="Job exited with code 3"):
        run_step(with_file(backend, tmp_path, "r.json"), FakeHost(), TIMING)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("r.txt", b"curl -H 'x: hunter22-and-more'"),
        ("r.json", b'{"urls": ["https://me:hunter22\\u002dand-more@host"]}'),
        ("r.json", b'{"hunter22-and-more": 1}'),
    ],
)
def test_a_result_with_a_secret_in_it_is_handed_to_nobody(tmp_path: Path, path: str, data: bytes) -> None:
    host = FakeHost()
    host.variables = {"nemo_secret.default.token": "hunter22-and-more"}
    task = with_file(WithFiles({path: data}), tmp_path, path)
    item = EnvironmentItem.model_validate({"name": "TOKEN", "from_secret": {"name": "token"}})
    task = replace(task, step=task.step.model_copy(update={"environment": [item]}))
    with pytest.raises(StepFailed, match=rf"Step 'train' left a result file '{path}' that holds the value of a secret"):
        run_step(task, host, TIMING)
    assert result_key(0) not in host.values
    assert host.values[step_key(0)]["error_details"]["fault"] == "user"
    assert "hunter22" not in json.dumps(host.values)
