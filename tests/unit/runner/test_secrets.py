"""Secrets of a step: where their values go, where they never stand, and what happens when they cannot be had."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase, Workload
from nemo_airflow_provider.errors import ConfigError, StartError
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.model.record import parse_record, step_key
from nemo_airflow_provider.model.spec import EnvironmentItem
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner import StepFailed, StepHost, StepLeft, StepTask, Timing
from nemo_airflow_provider.runner import run_step as run_step_paced
from tests.unit.runner.fakes import FakeBackend, FakeHost, Process, ended, step_task

QUICK = Timing(intent=0.0, engine=0.01, intent_later=0.01, last=0.5)
VALUE = "hunter22-and-more"
VARIABLE = "nemo_secret.default.token"


def run_step(task: StepTask, host: StepHost) -> None:
    run_step_paced(task, host, QUICK)


def needing(task: StepTask, **references: str) -> StepTask:
    """The task with secrets in its environment, beside the plain variable it has."""
    items = [EnvironmentItem.model_validate({"name": n, "from_secret": {"name": r}}) for n, r in references.items()]
    environment = [*(task.step.environment or []), *items]
    return replace(task, step=task.step.model_copy(update={"environment": environment}))


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost()
    host.variables = {VARIABLE: VALUE}
    return host


@pytest.fixture
def task(backend: FakeBackend, tmp_path: Path) -> StepTask:
    return needing(step_task(backend, tmp_path), TOKEN="token")


def printed(task: StepTask) -> list[str]:
    return [line.message for line in read_from(task.storage, task.stream, 0, 100)]


def record(host: FakeHost) -> dict[str, Any]:
    value: dict[str, Any] = host.values[step_key(0)]
    return value


class TestStart:
    def test_values_are_in_the_environment_alone(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        seen: list[Workload] = []

        def submit(workload: Workload) -> Process:
            seen.append(workload)
            said: dict[str, Any] = {"details": {"pod": {"tail": [VALUE]}}, "error": {"x": VALUE}}
            end = Observation(Phase.ENDED, exit_code=3, message=f"said {VALUE}", **said)
            return Process(f"token={VALUE}\n".encode(), end)

        backend.on_submit = submit
        with pytest.raises(StepFailed):
            run_step(task, host)
        environment = seen[0].environment
        assert environment.secrets == {"TOKEN": VALUE}
        assert environment.step == {"A": "1"}
        assert environment.system["NEMO_JOB_SECRETS"] == "TOKEN=default/token"
        assert VALUE not in json.dumps(seen[0].step.model_dump(mode="json"))
        assert printed(task) == [line.message for line in host.lines] == ["token=***"]
        assert VALUE not in json.dumps(host.saved, default=str)
        done = record(host)
        assert done["status_details"]["message"] == "said ***"
        assert done["status_details"]["pod"] == {"tail": ["***"]}
        assert done["error_details"]["x"] == "***"
        assert done["tasks"][0]["error_stack"] == "token=***"
        assert host.hidden == {VALUE}

    def test_a_secret_of_several_lines(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        host.variables[VARIABLE] = "first line\nsecond line\n"
        backend.on_submit = lambda _: ended(0, b"a first line\nsecond line\nof it\n")
        run_step(task, host)
        assert printed(task) == ["a ***", "***", "of it"]
        assert host.hidden == {"first line", "second line", "first line\nsecond line"}

    def test_several_and_the_last_of_a_name(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        seen: list[Workload] = []
        backend.on_submit = lambda workload: seen.append(workload) or ended(0)  # type: ignore[func-returns-value]
        host.variables["nemo_secret.default.other"] = ""
        run_step(needing(task, A="other", B="default/token"), host)
        assert seen[0].environment.secrets == {"TOKEN": VALUE, "A": "", "B": VALUE}
        assert seen[0].environment.system["NEMO_JOB_SECRETS"] == ("TOKEN=default/token,A=default/other,B=default/token")

    @pytest.mark.parametrize(
        ("reference", "value", "text"),
        [
            (
                "gone",
                None,
                "Step 'train' needs the secret 'default/gone' (for X), and there is none: set the Airflow Variable "
                "nemo_secret.default.gone and run the job again.",
            ),
            (
                "shared/token",
                None,
                "Step 'train' may not use the secret 'shared/token' (for X): [nemo] secret_grants does not list "
                '["default", "shared/token"].',
            ),
            ("a/b/c", None, "Step 'train' refers to a secret as 'a/b/c' (for X), which names none: write 'name'"),
            ("y" * 1000, None, f"Step 'train' refers to a secret as '{'y' * 100}' (for X)"),
            ("odd", "a\0b", "Step 'train' needs the secret 'default/odd' (for X), and it holds the character NUL"),
        ],
    )
    def test_one_that_cannot_be_had(
        self, task: StepTask, host: FakeHost, backend: FakeBackend, reference: str, value: str | None, text: str
    ) -> None:
        # A foreign one is not even looked up: that it exists must not show.
        host.variables["nemo_secret.shared.token"] = "theirs"
        if value is not None:
            host.variables[f"nemo_secret.default.{reference}"] = value
        with pytest.raises(StepFailed) as caught:
            run_step(needing(task, X=reference), host)
        assert str(caught.value).startswith(text)
        assert backend.submitted == []
        done = record(host)
        assert (done["status"], done["error_details"]) == ("error", {"message": str(caught.value)})
        assert done.get("tasks", []) == []

    def test_grants_that_are_no_list(self, task: StepTask, host: FakeHost) -> None:
        def broken(_: Any) -> bool:
            raise ConfigError("[nemo] secret_grants is not JSON")

        with pytest.raises(StepFailed, match="secret_grants is not JSON"):
            run_step(replace(task, may_use=broken), host)

    def test_backends_that_are_away_are_asked_again(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        host.variables_away = 3
        run_step(task, host)
        assert record(host)["status"] == "completed"
        waiting = {value["status_details"]["message"] for _, value in host.saved if value["status"] == "pending"}
        assert (
            "Step 'train' needs the secret 'default/token' (for TOKEN), and nobody can tell its value now. "
            "Airflow's secrets backend Vault failed: TimeoutError"
        ) in waiting

    def test_a_cancel_while_backends_are_away(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> None:
        host.variables_away = 1_000_000
        host.ask(Action.CANCEL)
        with pytest.raises(StepFailed, match="cancelled before this step started"):
            run_step(task, host)

    def test_what_is_wrong_with_the_command_names_no_value(
        self, task: StepTask, host: FakeHost, backend: FakeBackend
    ) -> None:
        def refuse(_: Workload) -> Process:
            raise StartError(f"cannot run {VALUE}", detail=f"[Errno 2] {VALUE}")

        backend.on_submit = refuse
        with pytest.raises(StepFailed):
            run_step(task, host)
        assert record(host)["error_details"] == {"message": "cannot run ***", "error": "[Errno 2] ***"}


class TestAdoption:
    @pytest.fixture
    def again(self, task: StepTask, host: FakeHost, backend: FakeBackend) -> FakeHost:
        """The next try, after the first had to leave; the workload has printed its token since."""
        backend.on_submit = lambda _: Process()
        backend.on_wait = lambda _: host.terminated.set()
        with pytest.raises(StepLeft):
            run_step(task, host)
        backend.on_wait = lambda _: None
        assert printed(task) == []
        backend.processes[task.key(0)].output = f"token={VALUE}\n".encode()
        again = FakeHost()
        again.values, again.variables = host.values, host.variables
        return again

    def end(self, backend: FakeBackend, task: StepTask, **details: Any) -> None:
        backend.processes[task.key(0)].end = Observation(Phase.ENDED, exit_code=0, details=details)

    def test_values_are_looked_up_again(self, task: StepTask, again: FakeHost, backend: FakeBackend) -> None:
        self.end(backend, task, tail=VALUE)
        run_step(task, again)
        assert printed(task) == ["token=***"]
        assert record(again)["status_details"]["tail"] == "***"
        assert again.hidden == {VALUE}

    def test_one_that_is_gone_is_told(self, task: StepTask, again: FakeHost, backend: FakeBackend) -> None:
        again.variables = {"nemo_secret.default.other": "printed-too"}
        self.end(backend, task)
        backend.processes[task.key(0)].output = f"{VALUE} printed-too\n".encode()
        run_step(needing(task, OTHER="other"), again)
        assert printed(task) == [f"{VALUE} ***"]
        assert any("secrets that are gone: 'default/token'. Their values cannot be hidden" in n for n in again.notes)

    def test_a_grant_that_is_gone_changes_nothing(self, task: StepTask, again: FakeHost, backend: FakeBackend) -> None:
        self.end(backend, task)
        run_step(replace(task, may_use=lambda _: False), again)
        assert printed(task) == ["token=***"]

    def test_output_waits_for_backends_that_are_away(
        self, task: StepTask, again: FakeHost, backend: FakeBackend
    ) -> None:
        again.variables_away = 1_000_000
        looks: list[list[str]] = []

        def wait(key: WorkloadKey) -> None:
            looks.append(printed(task))
            if len(looks) == 20:
                backend.processes[key].end = Observation(Phase.ENDED, exit_code=0, details={"tail": VALUE})

        backend.on_wait = wait
        save = again.save

        def saving(key: str, value: Any) -> None:
            save(key, value)
            if "output waits until it is known" in value["status_details"]["message"]:
                again.variables_away = 50

        again.save = saving  # type: ignore[method-assign]
        run_step(task, again)
        assert looks == [[]] * 20
        assert printed(task) == ["token=***"]
        assert VALUE not in json.dumps(again.saved, default=str)

    def test_a_cancel_does_not_wait_for_backends(self, task: StepTask, again: FakeHost, backend: FakeBackend) -> None:
        again.variables_away = 1_000_000
        again.ask(Action.CANCEL)
        stop = backend.stop

        def stopping(key: WorkloadKey, grace_seconds: float) -> None:
            stop(key, grace_seconds)
            again.variables_away = 0

        backend.stop = stopping  # type: ignore[method-assign]
        with pytest.raises(StepFailed, match="cancelled"):
            run_step(task, again)
        assert printed(task) == ["token=***"]

    def test_a_start_that_was_not_made_is_made_with_the_value_of_now(
        self, task: StepTask, again: FakeHost, backend: FakeBackend
    ) -> None:
        backend.processes.clear()
        record(again)["handle"]["state"] = "submitting"
        again.variables = {VARIABLE: "rotated-value"}
        backend.on_submit = lambda workload: ended(0, "".join(workload.environment.secrets.values()).encode())
        run_step(task, again)
        assert printed(task) == ["***"]
        parsed = parse_record(record(again))
        assert parsed is not None and parsed.status == "completed"
