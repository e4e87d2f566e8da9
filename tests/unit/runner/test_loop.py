"""One step from its start to its end, and every way to be interrupted in between."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase, Workload
from nemo_airflow_provider.errors import BackendError, CapacityError, ConfigError, StartError, Superseded
from nemo_airflow_provider.logs.store import superseded_start
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import StepRecord, parse_record, step_key
from nemo_airflow_provider.model.spec import Lifecycle
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner import StepFailed, StepHost, StepLeft, StepTask, Timing
from nemo_airflow_provider.runner import run_step as run_step_paced
from tests.unit.runner.fakes import FakeBackend, FakeHost, Process, ended, step_task

#: Nothing is waited for in these tests.
QUICK = Timing(intent=0.0, engine=0.01, intent_later=0.01, last=0.5)


def run_step(task: StepTask, host: StepHost) -> None:
    run_step_paced(task, host, QUICK)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def task(backend: FakeBackend, tmp_path: Path) -> StepTask:
    return step_task(backend, tmp_path)


def record(host: FakeHost, generation: int = 0) -> StepRecord:
    return StepRecord.model_validate(host.values[step_key(generation)])


def changed(task: StepTask, **changes: Any) -> StepTask:
    return replace(task, **changes)


def statuses(host: FakeHost) -> list[str]:
    seen: list[str] = []
    for _, value in host.saved:
        if not seen or seen[-1] != value["status"]:
            seen.append(value["status"])
    return seen


def waits(message: str, **more: Any) -> Observation:
    return Observation(Phase.PENDING, message=message, **more)


@pytest.fixture
def slow(backend: FakeBackend) -> FakeBackend:
    """An engine whose workloads do not run when it has taken them."""
    backend.starts_at_once = False  # type: ignore[misc]
    return backend


class TestWorkloadsThatWait:
    def test_are_pending_until_they_run(self, task: StepTask, host: FakeHost, slow: FakeBackend) -> None:
        slow.on_submit = lambda _: Process(waiting=[waits("no node yet"), waits("pulling")])

        def run_on(key: WorkloadKey) -> None:
            if "active" in statuses(host):
                slow.processes[key].end = Observation(Phase.ENDED, exit_code=0)

        slow.on_wait = run_on
        run_step(task, host)
        assert statuses(host) == ["pending", "active", "completed"]
        said = [value["status_details"].get("message") for _, value in host.saved if value["status"] == "pending"]
        assert said[-2:] == ["no node yet", "pulling"]
        begun = next(value.get("started_at") for _, value in host.saved if value["status"] == "active")
        assert all(value.get("started_at") is None for _, value in host.saved if value["status"] == "pending")
        assert begun is not None

    def test_for_too_long(self, host: FakeHost, slow: FakeBackend, tmp_path: Path) -> None:
        task = step_task(slow, tmp_path, ttl_seconds_before_active=0)
        slow.on_submit = lambda _: Process(waiting=[waits("no node has a GPU")] * 1000)
        with pytest.raises(StepFailed, match="max TTL of 0 seconds"):
            run_step(task, host)
        assert [key for key, _ in slow.stopped] == [task.key(0)]
        assert "active" not in statuses(host)

    def test_and_are_gone_once_their_time_is_over(self, host: FakeHost, slow: FakeBackend, tmp_path: Path) -> None:
        task = step_task(slow, tmp_path, ttl_seconds_before_active=0)
        gone = Observation(Phase.ABSENT)
        slow.on_submit = lambda _: Process(end=gone, waiting=[waits("no node has a GPU")] * 1000)
        with pytest.raises(StepFailed, match="max TTL of 0 seconds"):
            run_step(task, host)

    def test_for_nothing(self, task: StepTask, host: FakeHost, slow: FakeBackend) -> None:
        hopeless = waits("the image has no such name", hopeless="Image x! can never be pulled")
        slow.on_submit = lambda _: Process(waiting=[waits("pulling"), *[hopeless] * 1000])
        with pytest.raises(StepFailed, match="Image x! can never be pulled"):
            run_step(task, host)
        done = record(host)
        assert done.status_details["message"] == done.error_details["message"] == "Image x! can never be pulled"
        assert len(slow.stopped) == 1

    def test_and_are_cancelled(self, task: StepTask, host: FakeHost, slow: FakeBackend) -> None:
        slow.on_submit = lambda _: Process(
            end=Observation(Phase.ENDED, stopped="asked"), waiting=[waits("no node")] * 1000
        )
        slow.on_wait = lambda _: host.ask(Action.CANCEL)
        with pytest.raises(StepFailed, match="^Job was cancelled$"):
            run_step(task, host)


class TestPlainRuns:
    def test_what_is_started_knows_its_ids_of_the_api(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        task = step_task(backend, tmp_path, generation=2, clear_number=3, earlier=["prepare"])
        seen: list[Workload] = []
        backend.on_submit = lambda workload: seen.append(workload) or ended(0)  # type: ignore[func-returns-value]
        run_step(task, host)
        key = task.key(0).run_key
        assert (seen[0].step_id, seen[0].attempt_id) == (names.step_id(key, 1, 2), names.attempt_id(key, 3))

    def test_a_step_completes(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        backend.on_submit = lambda _: ended(0, b"one\ntwo\n")
        run_step(task, host)
        assert statuses(host) == ["pending", "active", "completed"]
        done = record(host)
        assert done.status_details["message"] == "Job completed successfully with exit code 0"
        assert (done.status_details["exit_code"], done.status_details["pid"], done.error_details) == (0, 7, {})
        assert [row.status for row in done.tasks] == ["completed"]
        assert done.tasks[0].name == task.key(0).task
        assert [line.message for line in read_from(task.storage, task.stream, 0, 10)] == ["one", "two"]
        assert [line.message for line in host.lines] == ["one", "two"]
        assert backend.cleaned == [task.key(0)]

    def test_the_record_is_there_before_the_workload(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        seen: list[Any] = []

        def submit(workload: Workload) -> Process:
            seen.append(record(host).handle)
            return ended(0)

        backend.on_submit = submit
        run_step(task, host)
        assert seen[0].state == "submitting"
        handle = record(host).handle
        assert handle is not None and handle.state == "submitted"

    def test_the_log_is_complete_before_the_status_is_terminal(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend.on_submit = lambda _: ended(3, b"".join(b"line %d\n" % number for number in range(5000)))
        counts: list[int] = []
        save = host.save

        def counting(key: str, value: Any) -> None:
            if value["status"] == "error":
                counts.append(len(read_from(task.storage, task.stream, 0, 10_000)))
            save(key, value)

        monkeypatch.setattr(host, "save", counting)
        with pytest.raises(StepFailed, match="Job exited with code 3"):
            run_step(task, host)
        assert counts == [5000]
        failed = record(host)
        assert failed.error_details["message"] == "Job exited with code 3"
        assert failed.tasks[0].error_stack is not None and failed.tasks[0].error_stack.endswith("line 4999")
        assert len(failed.tasks[0].error_stack) <= 2048
        assert backend.cleaned == []

    def test_lines_that_the_task_log_lacks_are_pointed_at(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: ended(0, b"x\n" * 100)
        run_step(task, host)
        assert len(host.lines) == 20
        [note] = [note for note in host.notes if "80 of 100 lines are not shown here" in note]
        assert "nemo jobs get-logs job-1 --workspace default --step-id train" in note

    def test_what_the_jobs_api_does_not_show_is_pointed_at_where_it_is(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: ended(0, b"x\n" * 100)
        run_step(replace(task, listed=False), host)
        [note] = [note for note in host.notes if "80 of 100 lines are not shown here" in note]
        assert str(task.stream.path(task.storage)) in note and "nemo jobs" not in note

    def test_what_the_engine_says_is_in_the_task_log_once(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        often = [Observation(Phase.PENDING, note="no room for 2"), Observation(Phase.PENDING, note="no room for 1")] * 3
        more = [Observation(Phase.PENDING, note=f"so {number}") for number in range(100)]
        backend.on_submit = lambda _: replace(ended(0), waiting=[*often, *more])
        run_step(task, host)
        told = [note for note in host.notes if note.startswith(("no room", "so "))]
        assert told == ["no room for 2", "no room for 1", *(f"so {number}" for number in range(18))]

    def test_the_environment_is_grouped(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        seen: list[Workload] = []
        backend.on_submit = lambda workload: seen.append(workload) or ended(0)  # type: ignore[func-returns-value]
        run_step(task, host)
        environment = seen[0].environment
        assert environment.system["NEMO_JOB_ID"] == "job-1"
        assert environment.system["NEMO_JOB_TASK"] == seen[0].key.task
        assert environment.step == {"A": "1"}
        assert environment.platform["NHX_JOBS_URL"] == "http://localhost:8080"
        assert environment.principal == {"NHX_PRINCIPAL": '{"principal_id": "ann"}'}


class TestAdoption:
    def begin(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        """A try that is killed while its workload runs."""
        backend.on_submit = lambda _: Process(b"before\nafter\n")
        backend.on_wait = lambda _: host.terminated.set()
        with pytest.raises(StepLeft, match="runs on"):
            run_step(task, host)
        backend.on_wait = lambda _: None
        assert backend.stopped == []

    def test_the_next_try_goes_on(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        self.begin(task, host, backend)
        again = FakeHost()
        again.values = host.values
        backend.processes[task.key(0)].end = Observation(Phase.ENDED, exit_code=0)
        run_step(task, again)
        assert backend.submitted == [task.key(0)]
        assert [line.message for line in read_from(task.storage, task.stream, 0, 10)] == ["before", "after"]

    @pytest.mark.parametrize("known", [True, False])
    def test_a_try_killed_while_submitting(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, known: bool
    ) -> None:
        self.begin(task, host, backend)
        host.values[step_key(0)]["handle"]["state"] = "submitting"
        process = backend.processes.pop(task.key(0))
        if known:
            backend.processes[task.key(0)] = process
            process.end = Observation(Phase.ENDED, exit_code=0)
        backend.on_submit = lambda _: ended(0)
        backend.submitted.clear()
        again = FakeHost()
        again.values = host.values
        run_step(task, again)
        assert backend.submitted == ([] if known else [task.key(0)])

    def test_a_submitted_workload_that_is_gone_is_never_submitted_again(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        self.begin(task, host, backend)
        backend.processes.clear()
        again = FakeHost()
        again.values = host.values
        with pytest.raises(StepFailed, match="engine-1"):
            run_step(task, again)
        assert backend.submitted == [task.key(0)]
        assert record(again).error_details["reason"] == "LostWorkload"

    def test_another_engine_cannot_adopt(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        self.begin(task, host, backend)
        backend.engine = "engine-2"
        again = FakeHost()
        again.values = host.values
        with pytest.raises(StepFailed, match="Workload is not on engine-2; it was started on engine-1"):
            run_step(task, again)
        assert backend.submitted == [task.key(0)]

    def test_an_end_that_was_written_down_is_reported_again(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: ended(1)
        for _ in range(2):
            with pytest.raises(StepFailed, match="code 1"):
                run_step(task, host)
        assert len(backend.submitted) == 1

    @pytest.mark.parametrize("verb", ["identity", "find", "observe", "cleanup"])
    def test_an_engine_that_is_away_is_asked_again(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, verb: str
    ) -> None:
        backend.failing[verb] = 3
        run_step(task, host)
        assert record(host).status == "completed"
        assert len(backend.submitted) == 1

    def test_a_workload_is_not_given_up_for_a_configuration_being_mended(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        self.begin(task, host, backend)
        again = FakeHost()
        again.values = host.values
        answers: list[Any] = [ConfigError("/etc/jobs.yaml:3: broken"), ConfigError("/etc/jobs.yaml:3: broken")]

        def mended() -> Any:
            if answers:
                raise answers.pop()
            return task.open_backend()

        backend.processes[task.key(0)].end = Observation(Phase.ENDED, exit_code=0)
        run_step(changed(task, open_backend=mended), again)
        assert record(again).status == "completed"
        assert any("broken" in str(value["status_details"]["message"]) for _, value in again.saved)

    def test_a_start_that_nobody_saw_is_timed_from_its_adoption(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        self.begin(task, host, backend)
        again = FakeHost()
        submitting = next(value for _, value in host.saved if value["handle"]["state"] == "submitting")
        again.values = {step_key(0): submitting}
        backend.on_wait = lambda key: setattr(backend.processes[key], "end", Observation(Phase.ENDED, exit_code=0))
        run_step(task, again)
        done = record(again)
        assert (len(backend.submitted), done.status) == (1, "completed")
        assert done.handle is not None and done.handle.state == "submitted"
        assert done.started_at is not None

    def test_a_try_that_is_superseded_starts_nothing(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        host.superseded = True
        with pytest.raises(Superseded):
            run_step(task, host)
        assert backend.submitted == []


class TestGenerations:
    def test_workloads_of_older_generations_are_stopped_first(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        old = step_task(backend, tmp_path).key(0)
        backend.processes[old] = Process()
        order: list[str] = []
        stop = backend.stop
        backend.stop = lambda key, grace: (order.append("stop"), stop(key, grace))[1]  # type: ignore[method-assign]
        backend.on_submit = lambda _: order.append("submit") or ended(0)  # type: ignore[func-returns-value]
        run_step(step_task(backend, tmp_path, generation=1, clear_number=1), host)
        assert order == ["stop", "submit"]
        assert record(host, 1).clear_number == 1

    def test_they_are_stopped_first_also_by_the_next_try(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        """The one before went when its record said `submitting`, and the older workload was not gone."""
        old = step_task(backend, tmp_path).key(0)
        backend.processes[old] = Process()
        backend.failing["stop"] = 1
        task = step_task(backend, tmp_path, generation=1, clear_number=1)
        host.note = lambda text: host.terminated.set() if text.startswith("Stopping") else None  # type: ignore[method-assign]
        with pytest.raises(StepLeft):
            run_step(task, host)
        handle = record(host, 1).handle
        assert handle is not None and (handle.state, backend.submitted) == ("submitting", [])
        again = FakeHost()
        again.values = host.values
        alive: list[bool] = []
        backend.on_submit = lambda _: (alive.append(backend.processes[old].end is None), ended(0))[1]
        run_step(task, again)
        assert alive == [False]

    def test_cleared_in_mid_step(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        """The try that sees `restarting` stops the workload; a later try of the same generation starts anew."""
        backend.on_submit = lambda _: Process()

        def clear(_: WorkloadKey) -> None:
            # Airflow archives the try before it tells its process to end.
            host.superseded = True
            host.terminated.set()

        backend.on_wait = clear
        host.state = "restarting"
        with pytest.raises(Superseded):
            run_step(task, host)
        assert superseded_start(task.storage, task.stream) == 0
        assert backend.stopped == [(task.key(0), 30)]
        again = FakeHost()
        # A runner killed before it could write the end leaves the record as it was.
        again.values = {step_key(0): host.saved[-1][1]}
        backend.on_wait = lambda _: None
        backend.on_submit = lambda _: ended(0)
        run_step(task, again)
        assert backend.submitted == [task.key(0), task.key(1)]
        assert [row.start for row in record(again).tasks] == [0, 1]
        assert record(again).status == "completed"

    def test_an_older_execution_gives_way_to_a_newer_one(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        newer = step_task(backend, tmp_path, generation=1).key(0)
        backend.processes[newer] = Process()
        with pytest.raises(Superseded, match="newer execution"):
            run_step(step_task(backend, tmp_path), host)
        assert (backend.stopped, backend.submitted) == ([], [])


class TestCancel:
    def test_before_the_start(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        host.ask(Action.CANCEL)
        with pytest.raises(StepFailed, match="cancelled before"):
            run_step(task, host)
        assert backend.submitted == []
        assert record(host).status == "cancelled"

    def test_in_mid_step(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        backend.on_submit = lambda _: Process(b"last words\n")
        backend.on_wait = lambda _: host.ask(Action.CANCEL)
        with pytest.raises(StepFailed, match="Job was cancelled with exit code -15"):
            run_step(task, host)
        assert backend.stopped == [(task.key(0), 30)]
        assert record(host).error_details == {}
        assert [line.message for line in read_from(task.storage, task.stream, 0, 10)] == ["last words"]

    def test_a_rerun_does_not_obey_an_older_cancel(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        host.ask(Action.CANCEL, clear_number=0)
        run_step(step_task(backend, tmp_path, generation=1, clear_number=1), host)
        assert record(host, 1).status == "completed"

    @pytest.mark.parametrize("state", ["failed", "success", "skipped"])
    def test_marked_in_airflow(self, task: StepTask, host: FakeHost, backend: FakeBackend, state: str) -> None:
        backend.on_submit = lambda _: Process()
        backend.on_wait = lambda _: host.terminated.set()
        host.state = state
        with pytest.raises(StepFailed):
            run_step(task, host)
        assert backend.stopped == [(task.key(0), 30)]
        assert record(host).status == "cancelled"

    def test_a_workload_that_needs_its_grace_is_left_to_the_engine(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: Process()
        backend.on_wait = lambda _: host.terminated.set()
        backend.ends_when_asked = False
        host.state = "failed"
        with pytest.raises(StepLeft, match="is being stopped"):
            run_step(task, host)
        assert backend.stopped == [(task.key(0), 30)]
        # The engine is asked at its own pace meanwhile, not as fast as the processor can.
        assert backend.looks < 500

    def test_a_workload_that_outlives_its_grace_is_asked_again(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        """An engine that was started anew has forgotten that it is to end something."""
        backend.ends_when_asked = False
        backend.on_submit = lambda _: Process()

        def wait(key: WorkloadKey) -> None:
            host.ask(Action.CANCEL)
            if len(backend.stopped) == 3:
                backend.processes[key].end = Observation(Phase.ENDED, exit_code=143, stopped="asked")

        backend.on_wait = wait
        task = step_task(backend, tmp_path, graceful_shutdown_timeout_seconds=0)
        with pytest.raises(StepFailed, match="cancelled"):
            run_step_paced(task, host, replace(QUICK, stop_again=0.01))
        assert (len(backend.stopped), record(host).status) == (3, "cancelled")

    def test_a_stop_that_the_engine_does_not_hear_is_asked_again(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: Process()
        backend.on_wait = lambda _: host.ask(Action.CANCEL)
        backend.failing["stop"] = 2
        with pytest.raises(StepFailed, match="cancelled"):
            run_step(task, host)
        assert backend.stopped == [(task.key(0), 30)]

    def test_a_workload_that_completed_when_the_worker_had_to_go(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        backend.on_submit = lambda _: (host.terminated.set(), ended(0))[1]
        with pytest.raises(StepLeft):
            run_step(task, host)
        again = FakeHost()
        again.values = host.values
        run_step(task, again)
        assert len(backend.submitted) == 1


class TestHostileText:
    """A record with a character that cannot be stored would be lost as a whole, and the step with it."""

    BAD, CLEAN = "a\0b\udc80c", "a\ufffdb\ufffdc"

    def details(self) -> dict[str, Any]:
        return {f"k{self.BAD}": [{"x": self.BAD}]}

    def test_of_an_end(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        seen = Observation(
            Phase.ENDED, exit_code=3, message=self.BAD, details=self.details(), error={"error": self.BAD}
        )
        backend.on_submit = lambda _: Process(b"one\0two\n", seen)
        with pytest.raises(StepFailed):
            run_step(task, host)
        done = parse_record(host.values[step_key(0)])
        assert done is not None
        assert (done.status, done.status_details["message"]) == ("error", self.CLEAN)
        assert done.status_details[f"k{self.CLEAN}"] == [{"x": self.CLEAN}]
        assert (done.error_details["message"], done.error_details["error"]) == (self.CLEAN, self.CLEAN)
        assert done.tasks[0].error_stack == "one\ufffdtwo"
        # The log itself keeps every character.
        assert [line.message for line in read_from(task.storage, task.stream, 0, 10)] == ["one\0two"]

    def test_of_a_look_is_published_once(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        looks = [Observation(Phase.RUNNING, details=self.details())] * 5
        looks.append(Observation(Phase.ENDED, exit_code=0))
        backend.on_submit = lambda _: Process(b"", looks[0])

        def next_look(key: WorkloadKey) -> None:
            backend.processes[key].end = looks.pop(0)

        backend.on_wait = next_look
        run_step(task, host)
        assert statuses(host) == ["pending", "active", "completed"]
        assert len([value for _, value in host.saved if f"k{self.CLEAN}" in value["status_details"]]) == 2
        assert all(parse_record(value) is not None for _, value in host.saved)

    def test_of_a_start_that_is_refused(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        def refuse(_: Workload) -> Process:
            raise StartError(self.BAD, self.BAD)

        backend.on_submit = refuse
        with pytest.raises(StepFailed):
            run_step(task, host)
        done = parse_record(host.values[step_key(0)])
        assert done is not None
        assert done.error_details == {"message": self.CLEAN, "error": self.CLEAN}

    def test_of_a_configuration(self, task: StepTask, host: FakeHost) -> None:
        def broken() -> Any:
            raise ConfigError(self.BAD)

        with pytest.raises(StepFailed):
            run_step(changed(task, open_backend=broken), host)
        done = parse_record(host.values[step_key(0)])
        assert done is not None
        assert done.error_details == {"message": self.CLEAN}


class TestFaults:
    def test_a_start_that_is_refused(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        def refuse(_: Workload) -> Process:
            raise StartError("Failed to start subprocess: executable not found: x", "[Errno 2] no such file")

        backend.on_submit = refuse
        with pytest.raises(StepFailed, match="executable not found"):
            run_step(task, host)
        assert record(host).error_details == {
            "message": "Failed to start subprocess: executable not found: x",
            "error": "[Errno 2] no such file",
        }
        assert record(host).tasks == []

    def test_no_room_is_waited_for(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        answers: list[Exception | Process] = [CapacityError("no GPU free"), BackendError("away"), ended(0)]

        def submit(_: Workload) -> Process:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        backend.on_submit = submit
        run_step(task, host)
        messages = [value["status_details"]["message"] for _, value in host.saved]
        assert "no GPU free" in messages
        assert record(host).status == "completed"

    def test_a_start_whose_answer_was_lost_is_no_second_start(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        def lose(workload: Workload) -> Process:
            backend.processes[workload.key] = ended(0)
            raise BackendError("no answer within 60 s")

        backend.on_submit = lose
        run_step(task, host)
        assert (len(backend.submitted), record(host).status) == (1, "completed")

    def test_an_engine_that_is_away_for_good(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        """Nothing was handed to it: the step waits as for room, and says why."""
        backend.failing["identity"] = 10**9
        text = "max TTL of 0 seconds: the engine is away"
        with pytest.raises(StepFailed, match=text):
            run_step(step_task(backend, tmp_path, ttl_seconds_before_active=0), host)
        assert host.saved[0][1]["status_details"]["message"] == "the engine is away"
        assert backend.submitted == []
        assert record(host).error_details["reason"] == "the engine is away"

    def test_a_cancel_while_the_engine_is_away(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        def ask() -> str:
            host.ask(Action.CANCEL)
            raise BackendError("the engine is away")

        backend.identity = ask  # type: ignore[method-assign]
        with pytest.raises(StepFailed, match="cancelled before this step started"):
            run_step_paced(task, host, QUICK)
        assert record(host).status == "cancelled"

    def test_an_engine_that_goes_away_for_good(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        """What runs there may run on: the step ends by its limit, not before."""
        task = step_task(backend, tmp_path, ttl_seconds_active=0)
        backend.on_submit = lambda _: Process()

        def go(_: WorkloadKey) -> None:
            backend.failing = dict.fromkeys(("observe", "stop", "find"), 10**9)

        backend.on_wait = go
        with pytest.raises(StepFailed, match="max TTL of 0 seconds: the engine is away"):
            run_step_paced(task, host, replace(QUICK, away=0.05, engine_timer=0.0))
        messages = [value["status_details"]["message"] for _, value in host.saved]
        assert "the engine is away" in messages
        assert record(host).tasks[0].status == "error"

    def test_a_cancel_while_the_engine_is_away_for_good(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        """Nothing can be stopped, and nobody waits for it: what runs there is left to the sweep."""
        backend.on_submit = lambda _: Process()

        def go(_: WorkloadKey) -> None:
            backend.failing = dict.fromkeys(("observe", "stop", "find"), 10**9)
            host.ask(Action.CANCEL)

        backend.on_wait = go
        with pytest.raises(StepFailed, match="Job was cancelled; its engine does not answer"):
            run_step_paced(task, host, replace(QUICK, away=0.05))
        assert statuses(host)[-2:] == ["cancelling", "cancelled"]
        assert record(host).tasks[0].status == "cancelled"

    @pytest.mark.parametrize(("has_timer", "runs_on"), [(True, True), (False, False)])
    def test_our_timer_goes_off_later_only_where_the_engine_has_one(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path, has_timer: bool, runs_on: bool
    ) -> None:
        backend.has_active_timer = has_timer  # type: ignore[misc]
        backend.on_submit = lambda _: Process()
        beats = iter(range(20))

        def end(key: WorkloadKey) -> None:
            if next(beats, None) is None:
                backend.processes[key].end = Observation(Phase.ENDED, exit_code=0)

        backend.on_wait = end
        with suppress(StepFailed):
            run_step_paced(step_task(backend, tmp_path, ttl_seconds_active=0), host, replace(QUICK, engine_timer=10**6))
        assert (backend.stopped == []) is runs_on

    @pytest.mark.parametrize("ending", ["cancel", "limit", "refusal"])
    def test_what_never_ran_is_given_up(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path, ending: str
    ) -> None:
        def submit(workload: Workload) -> Process:
            backend.processes[workload.key] = Process(end=Observation(Phase.PENDING))
            if ending == "cancel":
                host.ask(Action.CANCEL)
            raise StartError("no such device") if ending == "refusal" else BackendError("not started yet")

        backend.on_submit = submit
        task = step_task(backend, tmp_path, ttl_seconds_before_active=0 if ending == "limit" else 1800)
        with pytest.raises(StepFailed):
            run_step(task, host)
        assert backend.stopped == [(task.key(0), 0.0)]

    def test_a_workload_that_was_made_and_not_started_is_started(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        answers: list[Process | None] = [None, ended(0)]

        def submit(workload: Workload) -> Process:
            answer = answers.pop(0)
            if answer is None:
                backend.processes[workload.key] = Process(end=Observation(Phase.PENDING))
                raise BackendError("no space left on device")
            return answer

        backend.on_submit = submit
        run_step(task, host)
        assert (len(backend.submitted), record(host).status) == (2, "completed")

    def test_no_room_for_too_long(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:

        def refuse(_: Workload) -> Process:
            raise CapacityError("no GPU free")

        backend.on_submit = refuse
        with pytest.raises(StepFailed, match="Job timed out after reaching max TTL of 0 seconds"):
            run_step(step_task(backend, tmp_path, ttl_seconds_before_active=0), host)

    def test_the_engines_own_ttl(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        backend.on_submit = lambda _: Process(end=Observation(Phase.ENDED, exit_code=-15, stopped="ttl"))
        with pytest.raises(StepFailed, match="max TTL of 86400 seconds"):
            run_step(task, host)
        assert record(host).status == "error"

    def test_a_ttl_is_remembered_by_the_next_try(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        task = step_task(backend, tmp_path, ttl_seconds_active=0)
        timing = replace(QUICK, engine_timer=0.0)
        backend.on_submit = lambda _: Process()
        backend.stop = lambda key, grace: host.terminated.set()  # type: ignore[method-assign]
        with pytest.raises(StepLeft):
            run_step_paced(task, host, timing)
        again = FakeHost()
        again.values = host.values
        backend.processes[task.key(0)].end = Observation(Phase.ENDED, exit_code=-15, stopped="asked")
        with pytest.raises(StepFailed, match="max TTL of 0 seconds"):
            run_step_paced(task, again, timing)

    def test_a_stop_for_a_limit_that_a_lost_worker_did_not_ask_for_is_asked_for(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        """Also when the limit has not run out any more: its end is written down as that."""
        backend.on_submit = lambda _: Process()
        backend.failing["stop"] = 1
        save = host.save

        def saving(key: str, value: Any) -> None:
            save(key, value)
            if value["handle"].get("expired"):
                host.terminated.set()

        host.save = saving  # type: ignore[method-assign]
        with pytest.raises(StepLeft):
            run_step_paced(step_task(backend, tmp_path, ttl_seconds_active=0), host, replace(QUICK, engine_timer=0.0))
        again = FakeHost()
        again.values = host.values
        looks = iter(range(9))
        backend.on_wait = lambda key: None if next(looks, None) is not None else run_out(key)

        def run_out(key: WorkloadKey) -> None:
            backend.processes[key].end = Observation(Phase.ENDED, exit_code=0)

        task = step_task(backend, tmp_path)
        with pytest.raises(StepFailed, match="max TTL of 0 seconds"):
            run_step(task, again)
        assert backend.stopped == [(task.key(0), 30)]

    def test_a_step_without_a_sign_of_life(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        step = task.step.model_copy(update={"lifecycle": Lifecycle(staleness_timeout_seconds=1)})
        backend.on_submit = lambda _: Process()
        text = "Job terminated: no task updates received within 1s staleness threshold"
        with pytest.raises(StepFailed, match=text):
            run_step(changed(task, step=step), host)
        assert backend.stopped == [(task.key(0), 30)]
        assert (record(host).status, record(host).error_details) == ("error", {"message": text})

    @pytest.mark.parametrize(
        ("reason", "text"), [("signalled", "ended from outside"), ("orphaned", "work directory was removed")]
    )
    def test_an_end_that_nobody_wished(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, reason: Any, text: str
    ) -> None:
        backend.on_submit = lambda _: Process(end=Observation(Phase.ENDED, exit_code=-15, stopped=reason))
        with pytest.raises(StepFailed, match=text):
            run_step(task, host)
        assert (record(host).status, record(host).error_details["fault"]) == ("error", "platform")

    def test_a_step_that_is_refused(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        with pytest.raises(StepFailed, match="refers to secrets"):
            run_step(changed(task, refusal="Step 'train' refers to secrets"), host)
        assert record(host).error_details == {"message": "Step 'train' refers to secrets"}

    def test_a_state_store_that_is_away_costs_nothing(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nemo_airflow_provider.runner.task.STORE_RETRY_SECONDS", 0.01)

        def submit(_: Workload) -> Process:
            host.away_until = time.monotonic() + 0.3
            return Process(b"line\n")

        def wait(key: WorkloadKey) -> None:
            if time.monotonic() > host.away_until - 0.1:
                backend.processes[key].end = Observation(Phase.ENDED, exit_code=0)

        backend.on_submit, backend.on_wait = submit, wait
        run_step(task, host)
        assert record(host).status == "completed"

    def test_a_profile_that_is_gone(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        def gone() -> Any:
            raise ConfigError("/etc/jobs.yaml:3: jobs.executors: must be a list")

        with pytest.raises(StepFailed, match="jobs.yaml:3"):
            run_step(changed(step_task(backend, tmp_path), open_backend=gone), host)
        assert record(host).error_details == {"message": "/etc/jobs.yaml:3: jobs.executors: must be a list"}
