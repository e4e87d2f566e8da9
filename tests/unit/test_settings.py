"""Options of `[nemo]`."""

from __future__ import annotations

import pytest

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model.secret import SecretName
from nemo_airflow_provider.provider_info import get_provider_info

TOKEN = SecretName("shared", "hf-token")


@pytest.fixture(autouse=True)
def three_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", '["default", "research", "shared"]')


class TestSecretGrants:
    @pytest.mark.parametrize("text", ["", "[]"])
    def test_none(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setenv("AIRFLOW__NEMO__SECRET_GRANTS", text)
        assert settings.secret_grants() == frozenset()
        assert settings.may_use("shared", TOKEN)
        assert not settings.may_use("research", TOKEN)

    def test_pairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__NEMO__SECRET_GRANTS", '[["research", "shared/hf-token"]]')
        assert settings.may_use("research", TOKEN)
        assert not settings.may_use("default", TOKEN)
        assert not settings.may_use("research", SecretName("shared", "other"))
        assert not settings.may_use("shared", SecretName("research", "hf-token"))

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("[[", "secret_grants is not JSON: "),
            ('{"research": "shared/hf-token"}', "must be a JSON list, for example "),
            ('["research"]', "entry 1 is not a pair"),
            ('[["research", "shared/a"], ["research", "shared/a", "shared/b"]]', "entry 2 is not a pair"),
            ('[["research", 5]]', "entry 1 is not a pair"),
            ('[["research", "hf-token"]]', "entry 1 does not end in 'workspace/secret'"),
            ('[["research", "shared/*"]]', "entry 1 does not end in 'workspace/secret'"),
            ('[["research", "shared/a/b"]]', "entry 1 does not end in 'workspace/secret'"),
            ('[["nobody", "shared/a"]]', "does not list the workspace of its first part"),
            ('[["research", "nobody/a"]]', "does not list the workspace of its second part"),
            ('[["research", "research/a"]]', "entry 1 grants a workspace its own secret"),
        ],
    )
    def test_faults_are_told_by_their_place(self, monkeypatch: pytest.MonkeyPatch, text: str, error: str) -> None:
        monkeypatch.setenv("AIRFLOW__NEMO__SECRET_GRANTS", text)
        with pytest.raises(ConfigError) as caught:
            settings.secret_grants()
        assert str(caught.value).startswith("[nemo] secret_grants")
        assert error in str(caught.value)
        assert "nobody" not in str(caught.value)


def test_airflow_can_fill_in_the_defaults() -> None:
    for name, option in get_provider_info()["config"]["nemo"]["options"].items():
        if option["default"] is not None:
            assert str(option["default"]).format() == option["default"], name


@pytest.mark.parametrize("text", ["1m", "", "1.5", "-1", "2592001", "99999999999999999999"])
def test_a_time_between_sweeps_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__SWEEP_SECONDS", text)
    with pytest.raises(ConfigError, match=r"\[nemo\] sweep_seconds: "):
        settings.sweep_seconds()


@pytest.mark.parametrize("text", ["0", " 5 ", "2592000"])
def test_times_between_sweeps(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__SWEEP_SECONDS", text)
    assert settings.sweep_seconds() == int(text)


@pytest.mark.parametrize(
    ("executor", "mode", "probes"),
    [
        ("LocalExecutor", "auto", True),
        ("airflow.executors.local_executor.LocalExecutor", "", True),
        ("CeleryExecutor", "auto", False),
        ("LocalExecutor,CeleryExecutor", "auto", False),
        ("CeleryExecutor", "always", True),
        ("LocalExecutor", "never", False),
    ],
)
def test_engines_are_asked_where_every_step_runs(
    monkeypatch: pytest.MonkeyPatch, executor: str, mode: str, probes: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setenv("AIRFLOW__NEMO__PROBE_ENGINES", mode)
    assert settings.probe_engines() is probes
