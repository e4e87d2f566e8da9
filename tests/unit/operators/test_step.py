"""Operators: the run's conf is checked again, and the runner's outcomes become Airflow's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowRuntimeError,
    ErrorType,
)
from airflow.sdk.execution_time.comms import ErrorResponse

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import ConfigError, InvalidJob, Superseded
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import ASKED_AT
from nemo_airflow_provider.model.spec import JobSpec
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.operators import host as hosts
from nemo_airflow_provider.operators import step as operators
from nemo_airflow_provider.operators.conf import ConfSource, job_of_conf
from nemo_airflow_provider.operators.host import TaskHost
from nemo_airflow_provider.runner import Answer, StepFailed, StepLeft, StepTask, StoreUnavailable, Timing, Wakeup

EXECUTOR = {"provider": "subprocess", "profile": "default", "command": ["true"]}
CONF: dict[str, Any] = {
    "source": "test",
    "spec": {},
    "platform_spec": {"steps": [{"name": "one", "executor": EXECUTOR}, {"name": "two", "executor": EXECUTOR}]},
}
DAG_ID = names.shape_dag_id("default", JobSpec.model_validate(CONF).platform_spec.shape())


def context(**changes: Any) -> dict[str, Any]:
    run = {
        "dag_id": DAG_ID,
        "run_id": "job-1",
        "run_after": datetime(2026, 12, 1, tzinfo=UTC),
        "clear_number": 0,
        "conf": CONF,
        "triggering_user_name": "ann",
    } | changes
    instance = SimpleNamespace(task_id="two", max_tries=6, dag_id=DAG_ID, run_id="job-1")
    task = SimpleNamespace(retries=5)
    return {"dag_run": SimpleNamespace(**run), "ti": instance, "task": task, "task_state_store": None}


def nothing() -> Any:
    raise AssertionError("nobody asks for the backend")


def operator() -> operators.JobStepOperator:
    return operators.SubprocessStepOperator(task_id="two", profile="subprocess/default", source=ConfSource())


class TestConf:
    def test_the_step_is_found(self) -> None:
        task = ConfSource().step_task(context(), nothing)  # type: ignore[arg-type]
        assert (task.step.name, task.index, task.generation, task.workspace) == ("two", 1, 1, "default")
        assert (task.job_name, task.user) == ("job-1", "ann")

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"run_id": "manual__2026-12-01T00:00:00+00:00"}, "is not a job name: submit jobs with"),
            ({"conf": None}, "The run's conf is not a valid job: spec: Field required"),
            ({"conf": {**CONF, "platform_spec": {"steps": []}}}, "At least one step is required"),
            (
                {"conf": {**CONF, "platform_spec": {"steps": CONF["platform_spec"]["steps"][:1]}}},
                "does not describe the steps of this DAG",
            ),
        ],
    )
    def test_a_run_made_by_hand_is_checked(self, changes: dict[str, Any], text: str) -> None:
        run = context(**changes)["dag_run"]
        with pytest.raises(InvalidJob, match=text):
            job_of_conf(run.dag_id, run.run_id, run.conf)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("outcome", "exception"),
        [
            (StepFailed("Job exited with code 3"), AirflowFailException),
            (InvalidJob("bad conf"), AirflowFailException),
            (ConfigError("bad option"), AirflowFailException),
            (StepLeft("going away"), AirflowRescheduleException),
            (Superseded("archived"), AirflowFailException),
        ],
    )
    def test_exceptions(self, monkeypatch: pytest.MonkeyPatch, outcome: Exception, exception: type[Exception]) -> None:
        def run(*_: Any) -> None:
            raise outcome

        monkeypatch.setattr(operators, "run_step", run)
        with pytest.raises(exception):
            operator().execute(context())  # type: ignore[arg-type]

    def test_a_wrong_option_fails_a_new_step_and_watches_an_old_one_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__NEMO__PAUSE_HOLD_SECONDS", "long")
        monkeypatch.setenv("AIRFLOW__NEMO__TASK_LOG_MAX_LINES", "1m")
        seen: list[tuple[StepTask, Timing]] = []
        monkeypatch.setattr(operators, "run_step", lambda task, _host, timing, _answer: seen.append((task, timing)))
        operator().execute(context())  # type: ignore[arg-type]
        [(task, timing)] = seen
        # The runner fails a step with its refusal only if no workload of it runs.
        assert task.refusal is not None
        assert "[nemo] task_log_max_lines: " in task.refusal and "[nemo] pause_hold_seconds: " in task.refusal
        assert (task.task_log_max_lines, timing.park) == (settings.TASK_LOG_MAX_LINES, settings.PAUSE_HOLD_SECONDS)

    def test_on_kill_before_and_while_running(self, monkeypatch: pytest.MonkeyPatch) -> None:
        step = operator()
        step.on_kill()
        seen: list[bool] = []

        def run(_task: Any, host: TaskHost, *_: Any) -> None:
            step.on_kill()
            seen.append(host.terminated.wait(0))

        monkeypatch.setattr(operators, "run_step", run)
        step.execute(context())  # type: ignore[arg-type]
        assert seen == [True]


EARLY, LATE = datetime(2026, 12, 1, 10, tzinfo=UTC), datetime(2026, 12, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("params", "at"),
    [
        ({}, LATE),
        (None, LATE),
        ({ASKED_AT: EARLY.isoformat()}, EARLY),
        ({ASKED_AT: "2027-01-01T00:00:00Z"}, LATE),
        ({ASKED_AT: "soon"}, LATE),
    ],
)
def test_an_answer_is_as_old_as_what_it_answers(params: Any, at: datetime) -> None:
    event = {"chosen_options": ["Resume"], "responded_at": LATE, "params_input": params}
    assert hosts.answer_of(event) == Answer(Action.RESUME, at)


class Store:
    """A state store whose calls fail as Airflow's do."""

    def __init__(self, status: int) -> None:
        self._status = status

    def set(self, *_: Any, **__: Any) -> None:
        detail = {"status_code": self._status, "message": "no"}
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))

    get = set


@pytest.mark.parametrize(
    ("status", "error"), [(404, Superseded), (410, Superseded), (500, StoreUnavailable), (503, StoreUnavailable)]
)
def test_what_a_failing_state_store_means(status: int, error: type[Exception]) -> None:
    host = TaskHost({"task_state_store": Store(status), "ti": None}, None, Wakeup())  # type: ignore[typeddict-unknown-key,typeddict-item]
    with pytest.raises(error):
        host.save("step/0", {})


class Backend:
    """A secrets backend; `answers` are given one after the other."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self.answers = list(answers)

    def get_variable(self, key: str) -> str | None:
        assert key == "nemo_secret.default.token"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class TestVariables:
    @pytest.fixture
    def look(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str | None]:
        def look(backend: Backend, store: Any) -> str | None:
            monkeypatch.setattr(hosts, "ensure_secrets_backend_loaded", lambda: [backend])
            host = TaskHost({"task_state_store": store, "ti": None}, None, Wakeup())  # type: ignore[typeddict-unknown-key,typeddict-item]
            return host.variable("nemo_secret.default.token")

        return look

    def test_one_that_is_there(self, look: Callable[..., str | None]) -> None:
        assert look(Backend("value"), Store(500)) == "value"

    def test_one_that_seems_absent_is_asked_for_again_once_airflow_answers(
        self, look: Callable[..., str | None]
    ) -> None:
        answering = SimpleNamespace(get=lambda key: None)
        assert look(Backend(None, None), answering) is None
        assert look(Backend(None, "value"), answering) == "value"

    def test_nothing_is_absent_while_airflow_is_away(self, look: Callable[..., str | None]) -> None:
        with pytest.raises(StoreUnavailable):
            look(Backend(None), Store(500))

    def test_a_backend_that_fails(self, look: Callable[..., str | None]) -> None:
        with pytest.raises(StoreUnavailable, match="secrets backend Backend failed: TimeoutError"):
            look(Backend(TimeoutError("hunter22")), Store(500))


def test_wakeup() -> None:
    wakeup = Wakeup()
    assert not wakeup.wait(0.001)
    wakeup.set()
    wakeup.set()
    assert wakeup.is_set() and wakeup.wait(10) and wakeup.wait(None)
