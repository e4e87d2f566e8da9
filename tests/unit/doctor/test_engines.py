"""What is said about the engines that profiles name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_airflow_provider.backends.powers import EngineRemark, EngineReport, SupportsProbe
from nemo_airflow_provider.doctor import engines
from nemo_airflow_provider.doctor.facts import Engine
from nemo_airflow_provider.doctor.findings import Level
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.profiles import Profile, load_profiles
from tests.unit.doctor.conftest import Bad

CELERY = {
    ("core", "executor"): "CeleryExecutor",
    ("nemo", "storage"): "/mnt/nemo",
    ("nemo", "task_base_url"): "https://airflow.example",
}
BROKEN = EngineRemark("It has no GPUs: steps with GPUs are refused", "Install the driver.", fails_steps=True)
DOUBTFUL = EngineRemark("It does not know the runtime 'nvidia'", "Install it.", fails_steps=False)


def test_an_engine_as_it_should_be_is_fine(bad: Bad) -> None:
    assert bad(engines=(Engine(("cpu/default",), EngineReport("Docker 28.0 (API 1.48) at unix:///s")),)) == []


def test_what_it_lacks(bad: Bad) -> None:
    found = bad(engines=(Engine(("gpu/a", "gpu/b"), EngineReport("Docker 28.0", (BROKEN, DOUBTFUL))),))
    assert [(finding.level, finding.check, finding.remedy) for finding in found] == [
        (Level.WARNING, "engines", "Install the driver."),
        (Level.NOTE, "engines", "Install it."),
    ]
    assert found[0].message == "Docker 28.0, for gpu/a, gpu/b: It has no GPUs: steps with GPUs are refused."


@pytest.mark.parametrize(("options", "level"), [({}, Level.WARNING), (CELERY, Level.NOTE)])
def test_one_that_cannot_be_used(bad: Bad, options: dict[tuple[str, str], str], level: Level) -> None:
    sentence = "No answer from the Docker engine at unix:///s: no such file or directory. Start it."
    found = bad(options, "platform: {runtime: docker}", engines=(Engine(("cpu/default",), sentence),))
    (finding,) = [finding for finding in found if finding.check == "engines"]
    assert finding.level is level
    assert finding.message.startswith("Steps of cpu/default cannot run")
    assert finding.message.endswith(sentence)
    assert finding.remedy


class Toy(SupportsProbe):
    """An engine of a profile; that of the connection `gone` does not answer."""

    def __init__(self, profile: Profile) -> None:
        self._connection = getattr(profile.config, "docker_conn_id", None)
        self._looked_at = getattr(profile.config, "env", {})

    def scope(self) -> str:
        return f"toy {self._connection}"

    def probe(self) -> None:
        raise NotImplementedError

    def examined(self) -> tuple[object, ...]:
        return (self._looked_at,)

    def examine(self, *, for_gpus: bool) -> EngineReport:
        if self._connection == "gone":
            raise BackendError("No answer. Start it.")
        return EngineReport("Toy", (BROKEN,) if for_gpus else (DOUBTFUL,) if self._looked_at else ())


def test_what_is_the_same_of_several_profiles_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("docker")
    pytest.importorskip("pynvml")
    monkeypatch.setattr(engines, "create_backend", lambda profile, site: Toy(profile))
    file = tmp_path / "jobs.yaml"
    entries = (
        "profile: other, config: {storage: {volume_name: b}}",
        "profile: far, config: {docker_conn_id: gone}",
        "profile: special, config: {env: {A: b}}",
    )
    file.write_text(f"jobs: {{executors: [{', '.join(f'{{provider: cpu, {entry}}}' for entry in entries)}]}}")
    assert engines.of(load_profiles(file, environ={}, probe=None)) == (
        Engine(("cpu/default", "cpu/other"), EngineReport("Toy")),
        Engine(("gpu/default",), EngineReport("Toy", (BROKEN,))),
        Engine(("cpu/far",), "No answer. Start it."),
        Engine(("cpu/special",), EngineReport("Toy", (DOUBTFUL,))),
    )
