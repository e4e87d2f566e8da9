"""Pauses of a step, in every state it can be in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.errors import CapacityError, Superseded
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import RESUMED_KEY, StepRecord, now, step_key
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner import (
    Answer,
    StepFailed,
    StepLeft,
    StepParked,
    StepTask,
    StoreUnavailable,
    Timing,
    run_step,
)
from tests.unit.runner.fakes import FakeBackend, FakeHost, Process, ended, step_task

QUICK = Timing(intent=0.001, engine=0.01, intent_later=0.001, last=0.5, park=60)
PARKS = Timing(intent=0.001, engine=0.01, intent_later=0.001, last=0.5, park=0)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture(params=["stop", "freeze"])
def task(request: pytest.FixtureRequest, backend: FakeBackend, tmp_path: Path) -> StepTask:
    return step_task(backend, tmp_path, pause=request.param)


@pytest.fixture
def stopping(backend: FakeBackend, tmp_path: Path) -> StepTask:
    return step_task(backend, tmp_path)


@pytest.fixture
def freezing(backend: FakeBackend, tmp_path: Path) -> StepTask:
    return step_task(backend, tmp_path, pause="freeze")


class Clock:
    """The time, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return now() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


def record(host: FakeHost) -> StepRecord:
    return StepRecord.model_validate(host.values[step_key(0)])


def then(host: FakeHost, *deeds: tuple[str, Callable[[], object]]) -> None:
    """Do each as soon as that status is saved."""
    todo: Iterator[tuple[str, Callable[[], object]]] = iter(deeds)
    waiting = [next(todo, None)]
    save = host.save

    def saving(key: str, value: Any) -> None:
        save(key, value)
        if waiting[0] is not None and value["status"] == waiting[0][0]:
            _, deed = waiting[0]
            waiting[0] = next(todo, None)
            deed()

    host.save = saving  # type: ignore[method-assign]


def end_newest(backend: FakeBackend, code: int = 0) -> None:
    backend.processes[backend.submitted[-1]].end = Observation(Phase.ENDED, exit_code=code)


def parked(task: StepTask, host: FakeHost, backend: FakeBackend) -> FakeHost:
    """The host of the next execution of a step that was paused in the middle and has parked."""
    backend.on_submit = lambda _: Process()
    then(host, ("active", lambda: host.ask(Action.PAUSE)))
    with pytest.raises(StepParked):
        run_step(task, host, PARKS)
    again = FakeHost()
    again.values = host.values
    return again


def test_stopped_three_times_and_begun_anew(stopping: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    backend.on_submit = lambda _: Process(b"line\n")
    pause, resume = (lambda action=action: host.ask(action) for action in (Action.PAUSE, Action.RESUME))
    then(host, *[("active", pause), ("paused", resume)] * 3, ("active", lambda: end_newest(backend)))
    run_step(stopping, host, QUICK)
    assert backend.submitted == [stopping.key(start) for start in range(4)]
    done = record(host)
    assert [(row.status, row.status_details["message"]) for row in done.tasks[:-1]] == [("cancelled", "Paused")] * 3
    assert done.tasks[-1].status == done.status == "completed"
    seen = [value["status"] for _, value in host.saved]
    assert [a for a, b in zip(seen, [None, *seen], strict=False) if a != b] == [
        "pending",
        *["active", "pausing", "paused", "resuming"] * 3,
        "active",
        "completed",
    ]


def test_frozen_three_times_and_let_go_on(freezing: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    backend.on_submit = lambda _: Process()
    pause, resume = (lambda action=action: host.ask(action) for action in (Action.PAUSE, Action.RESUME))
    then(host, *[("active", pause), ("paused", resume)] * 3, ("active", lambda: end_newest(backend)))
    run_step(freezing, host, QUICK)
    assert (backend.submitted, backend.stopped) == ([freezing.key(0)], [])
    assert [row.status for row in record(host).tasks] == ["completed"]
    assert record(host).paused_seconds > 0 and record(host).paused_at is None


def test_what_has_not_begun_rests(task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    host.ask(Action.PAUSE)
    submitted: list[int] = []
    then(host, ("paused", lambda: (submitted.append(len(backend.submitted)), host.ask(Action.RESUME))))
    run_step(task, host, QUICK)
    assert (submitted, backend.submitted) == ([0], [task.key(0)])
    assert record(host).status == "completed"


def test_what_waits_for_room_rests(task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    answers: list[Any] = [CapacityError("no room"), ended(0)]

    def submit(_: Any) -> Process:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            host.ask(Action.PAUSE)
            time.sleep(0.01)
            raise answer
        return answer  # type: ignore[no-any-return]

    backend.on_submit = submit
    then(host, ("paused", lambda: host.ask(Action.RESUME)))
    run_step(task, host, QUICK)
    assert backend.submitted == [task.key(0)] * 2
    assert [row.status for row in record(host).tasks] == ["completed"]


class TestAPauseWhileItWaitsForRoom:
    """Of a start that has 30 seconds to run; the pause lasts 60 of them."""

    @pytest.fixture
    def crowded(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> StepTask:
        """There is no room at first, and then none after the pause."""
        answers: list[Callable[[], Process]] = [
            lambda: no_room(host.ask, Action.PAUSE),
            lambda: no_room(),
            lambda: ended(0),
        ]
        backend.on_submit = lambda _: answers.pop(0)()
        return step_task(backend, tmp_path, ttl_seconds_before_active=30)

    def test_does_not_count(self, crowded: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        clock = Clock()
        then(host, ("paused", lambda: (clock.advance(60), host.ask(Action.RESUME))))
        run_step(crowded, host, QUICK, clock=clock)
        assert backend.submitted == [crowded.key(0)] * 3
        seen = [value["status"] for _, value in host.saved]
        assert [a for a, b in zip(seen, [None, *seen], strict=False) if a != b] == [
            *["pending", "paused", "resuming", "pending", "active", "completed"]
        ]

    def test_does_not_count_where_it_parked(self, crowded: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        with pytest.raises(StepParked):
            run_step(crowded, host, PARKS)
        clock, again = Clock(), FakeHost()
        again.values = host.values
        clock.advance(60)
        run_step(crowded, again, QUICK, Answer(Action.RESUME, clock()), clock=clock)
        assert [value["status"] for _, value in again.saved if "parked_at" not in value][:3] == [
            "paused",
            "resuming",
            "pending",
        ]
        assert record(again).status == "completed"

    def test_does_not_count_in_the_engines_queue_either(
        self, crowded: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        clock, looks, submit = Clock(), iter(range(5)), backend.on_submit
        backend.on_submit = lambda workload: (submit(workload), Process(end=Observation(Phase.PENDING)))[1]
        backend.on_wait = lambda _: end_newest(backend) if next(looks, None) is None else None
        then(host, ("paused", lambda: (clock.advance(60), host.ask(Action.RESUME))))
        run_step(crowded, host, QUICK, clock=clock)
        assert record(host).status == "completed"

    def test_and_the_wait_beside_it_does(self, crowded: StepTask, host: FakeHost) -> None:
        clock = Clock()
        resumed, waits = ("resuming", lambda: None), ("pending", lambda: clock.advance(60))
        then(host, ("paused", lambda: host.ask(Action.RESUME)), resumed, waits)
        with pytest.raises(StepFailed, match="max TTL of 30 seconds"):
            run_step(crowded, host, QUICK, clock=clock)


def no_room(first: Callable[..., object] = lambda: None, *arguments: object) -> Process:
    first(*arguments)
    time.sleep(0.01)  # so long lasts a look at what is wished
    raise CapacityError("no room")


def test_cancel_of_what_rests(task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    backend.on_submit = lambda _: Process()
    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("paused", lambda: host.ask(Action.CANCEL)))
    with pytest.raises(StepFailed, match="cancelled"):
        run_step(task, host, QUICK)
    assert len(backend.stopped) == 1 and len(backend.submitted) == 1
    assert [row.status for row in record(host).tasks] == ["cancelled"]


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "error")])
def test_an_end_before_the_stop_was_heard_counts(
    stopping: StepTask, host: FakeHost, backend: FakeBackend, code: int, status: str
) -> None:
    backend.on_submit = lambda _: Process()
    backend.stop = lambda key, _: end_newest(backend, code)  # type: ignore[method-assign]
    then(host, ("active", lambda: host.ask(Action.PAUSE)))
    if code:
        with pytest.raises(StepFailed):
            run_step(stopping, host, QUICK)
    else:
        run_step(stopping, host, QUICK)
    assert record(host).status == status


def test_an_exit_code_of_zero_after_the_stop_is_a_pause(
    stopping: StepTask, host: FakeHost, backend: FakeBackend
) -> None:
    def stop(key: WorkloadKey, _: float) -> None:
        backend.processes[key].end = Observation(Phase.ENDED, exit_code=0, stopped="asked")

    answers = [Process(), ended(0)]
    backend.on_submit = lambda _: answers.pop(0)
    backend.stop = stop  # type: ignore[method-assign]
    messages: list[str] = []
    then(
        host,
        ("active", lambda: host.ask(Action.PAUSE)),
        ("paused", lambda: (messages.append(record(host).status_details["message"]), host.ask(Action.RESUME))),
    )
    run_step(stopping, host, QUICK)
    assert (messages, len(backend.submitted)) == (["Job paused with exit code 0"], 2)


def test_a_resume_while_it_stops_begins_anew_at_once(stopping: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    answers = [Process(), ended(0)]
    backend.on_submit = lambda _: answers.pop(0)
    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("pausing", lambda: host.ask(Action.RESUME)))
    run_step(stopping, host, QUICK)
    assert len(backend.submitted) == 2


class TestParking:
    def test_it_goes_on_as_answered(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        again = parked(task, host, backend)
        assert host.invited == ["Job 'job-1' is paused in step 'train'"]
        left = record(host)
        assert (left.status, left.parked_at is not None) == ("paused", True)
        then(again, ("active", lambda: end_newest(backend)))
        run_step(task, again, QUICK, Answer(Action.RESUME, now() + timedelta(seconds=1)))
        assert record(again).status == "completed"
        assert record(again).parked_at is None
        assert len(backend.submitted) == (1 if task.open_backend()[1].pause == "freeze" else 2)

    def test_cancelled_as_answered(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        again = parked(task, host, backend)
        with pytest.raises(StepFailed):
            run_step(task, again, QUICK, Answer(Action.CANCEL, now()))
        assert record(again).status == "cancelled"
        assert len(backend.submitted) == 1

    def test_a_try_that_was_not_asked_rests_on(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        again = parked(task, host, backend)
        with pytest.raises(StepParked):
            run_step(task, again, PARKS)
        assert len(backend.submitted) == 1

    def test_a_resume_in_the_last_moment_is_not_missed(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        """It is written after the task has said that it parks, and before it does."""
        backend.on_submit = lambda _: Process()
        then(host, ("active", lambda: host.ask(Action.PAUSE)))
        host.on_invite = lambda: (host.ask(Action.RESUME), then(host, ("active", lambda: end_newest(backend))))
        run_step(task, host, PARKS)
        assert (len(host.invited), host.withdrawn) == (1, 1)
        assert record(host).parked_at is None


class Killed(BaseException):
    """The end of a worker."""


class TestAnsweredForTheWholeJob:
    """A resume on Airflow's pages writes no intent: the steps tell one another."""

    def test_the_step_leaves_word_for_later_ones(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        task = step_task(backend, tmp_path, later=["tune"])
        again = parked(task, host, backend)
        answer = Answer(Action.RESUME, now())
        then(again, ("active", lambda: end_newest(backend)))
        run_step(task, again, QUICK, answer)
        assert again.handed_on == {RESUMED_KEY: answer.at.isoformat()}

    @pytest.mark.parametrize("completed", [False, True])
    def test_every_later_try_leaves_it_too(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path, completed: bool
    ) -> None:
        """Airflow removes what a try has left when the next one begins."""
        task = step_task(backend, tmp_path, later=["tune"])
        again = parked(task, host, backend)
        deed = (lambda: end_newest(backend)) if completed else again.terminated.set
        then(again, ("active", deed))
        answer = Answer(Action.RESUME, now())
        with suppress(StepLeft):
            run_step(task, again, QUICK, answer)
        third = FakeHost()
        third.values = again.values
        then(third, ("active", lambda: end_newest(backend)))
        if not completed:
            end_newest(backend)
        run_step(task, third, QUICK)
        assert third.handed_on == {RESUMED_KEY: answer.at.isoformat()}

    def test_the_last_step_tells_nobody(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        again = parked(task, host, backend)
        then(again, ("active", lambda: end_newest(backend)))
        run_step(task, again, QUICK, Answer(Action.RESUME, now()))
        assert not again.handed_on

    def test_a_worker_that_dies_right_after_the_answer_loses_nothing(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        again = parked(task, host, backend)
        save = again.save

        def saving(key: str, value: Any) -> None:
            save(key, value)
            raise Killed

        again.save = saving  # type: ignore[method-assign]
        with pytest.raises(Killed):
            run_step(task, again, QUICK, Answer(Action.RESUME, now()))
        third = FakeHost()
        third.values = again.values
        then(third, ("active", lambda: end_newest(backend)))
        run_step(task, third, PARKS)
        assert record(third).status == "completed"

    def test_a_later_step_does_not_rest_for_it(self, host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
        host.ask(Action.PAUSE)
        host.left_by["first", RESUMED_KEY] = now().isoformat()
        run_step(step_task(backend, tmp_path, earlier=["first", "second"]), host, PARKS)
        assert (record(host).status, host.invited) == ("completed", [])

    @pytest.mark.parametrize("left", ["2026-12-01T10:00:00+00:00", "yesterday", None])
    def test_a_later_step_rests_for_a_newer_pause(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path, left: str | None
    ) -> None:
        host.ask(Action.PAUSE)
        if left:
            host.left_by["first", RESUMED_KEY] = left
        with pytest.raises(StepParked):
            run_step(step_task(backend, tmp_path, earlier=["first"]), host, PARKS)

    def test_a_later_step_rests_as_long_as_nobody_can_tell(
        self, host: FakeHost, backend: FakeBackend, tmp_path: Path
    ) -> None:
        host.ask(Action.PAUSE)
        host.left_by["first", RESUMED_KEY] = now().isoformat()
        handed, failures = host.handed, [StoreUnavailable("no answer")] * 3

        def failing(step: str, key: str) -> str | None:
            if failures:
                raise failures.pop()
            return handed(step, key)

        host.handed = failing  # type: ignore[method-assign]
        run_step(step_task(backend, tmp_path, earlier=["first"]), host, QUICK)
        assert (failures, record(host).status) == ([], "completed")
        assert next(value["status"] for _, value in host.saved) == "paused"

    def test_a_newer_pause_of_the_step_itself_counts(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        again = parked(task, host, backend)
        answer = Answer(Action.RESUME, now())
        again.ask(Action.PAUSE)
        with pytest.raises(StepParked):
            run_step(task, again, PARKS, answer)
        assert len(backend.submitted) == 1


def test_an_api_server_that_is_away_resumes_nothing(task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    backend.on_submit = lambda _: Process()
    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("paused", lambda: away()))

    def away() -> None:
        host.away_until = time.monotonic() + 0.2
        host.values["intent"]["action"] = "resume"

    then(host, ("active", lambda: None), ("active", lambda: end_newest(backend)))
    before = time.monotonic()
    run_step(task, host, QUICK)
    assert time.monotonic() - before >= 0.2
    assert record(host).status == "completed"


def test_a_worker_that_must_go_leaves_the_pause_as_it_is(task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    backend.on_submit = lambda _: Process()
    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("paused", host.terminated.set))
    with pytest.raises(StepLeft):
        run_step(task, host, QUICK)
    assert record(host).status == "paused"
    again = FakeHost()
    again.values = host.values
    again.ask(Action.RESUME)
    then(again, ("active", lambda: end_newest(backend)))
    run_step(task, again, QUICK)
    assert record(again).status == "completed"


def test_a_stop_that_a_lost_worker_did_not_ask_for_is_asked_for(
    stopping: StepTask, host: FakeHost, backend: FakeBackend
) -> None:
    """It goes once the record says `pausing`, and before the engine has heard of it."""
    answers = [Process(), ended(0)]
    backend.on_submit = lambda _: answers.pop(0)
    backend.failing["stop"] = 1
    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("pausing", host.terminated.set))
    with pytest.raises(StepLeft):
        run_step(stopping, host, QUICK)
    assert (record(host).status, backend.stopped) == ("pausing", [])
    again = FakeHost()
    again.values = host.values
    backend.ends_when_asked = False
    looks = iter(range(9))
    backend.on_wait = lambda key: None if next(looks, None) is not None else end_as_asked(backend, key)
    then(again, ("paused", lambda: again.ask(Action.RESUME)))
    run_step(stopping, again, QUICK)
    assert backend.stopped == [(stopping.key(0), 30)]
    assert record(again).status == "completed"


def end_as_asked(backend: FakeBackend, key: WorkloadKey) -> None:
    backend.processes[key].end = Observation(Phase.ENDED, exit_code=-15, stopped="asked")


def test_a_superseded_try_lets_nothing_go(freezing: StepTask, host: FakeHost, backend: FakeBackend) -> None:
    again = parked(freezing, host, backend)
    again.superseded = True
    again.ask(Action.RESUME)
    with pytest.raises(Superseded):
        run_step(freezing, again, QUICK)
    assert backend.processes[freezing.key(0)].frozen


def test_a_rerun_does_not_obey_an_older_pause(host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
    host.ask(Action.PAUSE, clear_number=0)
    run_step(step_task(backend, tmp_path, generation=1, clear_number=1), host, QUICK)
    assert StepRecord.model_validate(host.values[step_key(1)]).status == "completed"


def test_limits_stand_still(host: FakeHost, backend: FakeBackend, tmp_path: Path) -> None:
    """The clock goes on by three times the limit while it is paused, and by nothing that counts before and after."""
    clock, looks = Clock(), iter(range(9))
    task = step_task(backend, tmp_path, pause="freeze", ttl_seconds_active=600)
    backend.on_submit = lambda _: Process()

    def end_later(_: WorkloadKey) -> None:
        if record(host).paused_seconds > 0 and next(looks, None) is None:
            end_newest(backend)

    backend.on_wait = end_later

    def resume() -> None:
        clock.advance(1800)
        host.ask(Action.RESUME)

    then(host, ("active", lambda: host.ask(Action.PAUSE)), ("paused", resume))
    run_step(task, host, QUICK, clock=clock)
    assert record(host).status == "completed"
    assert record(host).paused_seconds >= 1800
