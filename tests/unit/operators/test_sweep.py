"""The sweep's task: what fails in it keeps the rest from nothing, and no value counts as gone that may be there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.operators import host as hosts
from nemo_airflow_provider.operators import sweep
from nemo_airflow_provider.operators.sweep import SweepOperator
from nemo_airflow_provider.sweep.credential import CREDENTIAL_KEY

AWAY = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 502}))


class Store:
    """The state store of the sweep's task; with `failing` set, it does not answer."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.failing = False

    def get(self, key: str) -> Any:
        self._answer()
        return self.values.get(key)

    def set(self, key: str, value: Any, *, retention: object = None) -> None:
        self._answer()
        self.values[key] = value

    def _answer(self) -> None:
        if self.failing:
            raise AWAY


class Office:
    """Does no chores."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Office:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def chores(self) -> Mapping[str, int]:
        raise Unavailable("The API server answered 500")


class Sweeping:
    """The sweep of one worker: which engines are swept, and how it looks variables up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, storage: Path) -> None:
        self.swept: list[str] = []
        self.store = Store()
        self.variable: Callable[[str], str | None] = lambda _: None
        monkeypatch.setenv("AIRFLOW__NEMO__STORAGE", str(storage))
        monkeypatch.setattr(sweep, "RemoteOffice", Office)
        monkeypatch.setattr(sweep, "swept_engines", lambda _, site, wanted: wanted)
        monkeypatch.setattr(sweep, "HostSweep", self._host_sweep)

    def _host_sweep(
        self, office: object, installation: str, storage: Path, variable: Callable[[str], str | None]
    ) -> SimpleNamespace:
        self.variable = variable
        return SimpleNamespace(run=lambda engines: self.swept.extend(engines) or {})

    def execute(self, *, chores: bool = False) -> None:
        task = SweepOperator(task_id="sweep", profiles=["subprocess/default"], chores=chores)
        run, instance = SimpleNamespace(run_id="run"), SimpleNamespace(task_id="sweep")
        task.execute({"dag_run": run, "ti": instance, "task_state_store": self.store})  # type: ignore[arg-type]


@pytest.fixture
def sweeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sweeping:
    return Sweeping(monkeypatch, tmp_path)


def test_engines_are_swept_whatever_becomes_of_the_chores(sweeping: Sweeping) -> None:
    with pytest.raises(AirflowFailException, match="The API server answered 500"):
        sweeping.execute(chores=True)
    assert sweeping.swept == ["subprocess/default"]


def test_a_state_store_that_does_not_answer_is_told(sweeping: Sweeping) -> None:
    sweeping.store.failing = True
    with pytest.raises(AirflowFailException, match="502"):
        sweeping.execute()


class TestVariables:
    """Airflow's last secrets backend calls absent also what an API server that is away would have."""

    @pytest.fixture
    def answers(self, sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
        answers: list[str | None] = []
        monkeypatch.setattr(hosts, "ensure_secrets_backend_loaded", lambda: [SimpleNamespace(get_variable=self.pop)])
        self.left = answers
        sweeping.execute()
        return answers

    def pop(self, key: str) -> str | None:
        return self.left.pop(0)

    def test_one_that_is_there_after_all(self, sweeping: Sweeping, answers: list[str | None]) -> None:
        answers += [None, "hunter22"]
        assert sweeping.variable("nemo_secret.default.pw") == "hunter22"

    def test_one_that_is_gone(self, sweeping: Sweeping, answers: list[str | None]) -> None:
        answers += [None, None]
        assert sweeping.variable("nemo_secret.default.pw") is None

    def test_while_the_api_server_is_away_nobody_can_tell(self, sweeping: Sweeping, answers: list[str | None]) -> None:
        answers += [None, None]
        sweeping.store.failing = True
        with pytest.raises(Unavailable):
            sweeping.variable("nemo_secret.default.pw")

    def test_nor_when_it_knows_this_task_no_more(self, sweeping: Sweeping, answers: list[str | None]) -> None:
        answers += [None, None]
        del sweeping.store.values[CREDENTIAL_KEY]
        with pytest.raises(Unavailable):
            sweeping.variable("nemo_secret.default.pw")
