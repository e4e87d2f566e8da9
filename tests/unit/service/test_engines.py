"""Engines that answer, refuse, hang or talk nonsense: the jobs API knows in time, and asks no more than needed."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.base import Backend
from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.powers import EngineReport, GpuBoard, SupportsGpus, SupportsProbe
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.profiles import PlatformConfig, Profile
from nemo_airflow_provider.service.engines import Engines
from nemo_airflow_provider.service.questions import Questions, Unanswered

PLATFORM = PlatformConfig()
PROFILE = Profile("gpu", "default", "docker", DockerConfig())


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Engine(SupportsProbe, SupportsGpus):
    """An engine that does as told: `says` is called by every verb."""

    def __init__(self, says: Callable[[], Any] = lambda: None) -> None:
        self.says = says
        self.asked = 0

    def scope(self) -> str:
        return "toy"

    def probe(self) -> None:
        self.asked += 1
        self.says()

    def examine(self, *, for_gpus: bool) -> EngineReport:
        raise NotImplementedError

    def has_gpus(self) -> bool:
        self.asked += 1
        return bool(self.says())

    def gpus(self) -> GpuBoard:
        self.asked += 1
        self.says()
        return GpuBoard((), ())


def refuses() -> None:
    raise BackendError("no")


def engines_over(engine: Engine, clock: Clock, wait_seconds: float = 60.0) -> Engines:
    questions = Questions(wait_seconds=wait_seconds, clock=clock)
    return Engines(questions, lambda profile, platform: cast(Backend, engine), clock)


@pytest.fixture
def told() -> Iterator[threading.Event]:
    """What an engine that hangs waits for; set at the end."""
    event = threading.Event()
    yield event
    event.set()


class TestAnswers:
    def test_an_answer_is_good_for_a_moment(self) -> None:
        engine, clock = Engine(), Clock()
        engines = engines_over(engine, clock)
        assert engines.answers(PROFILE, PLATFORM)
        engine.says = refuses
        clock.now = 5.0
        assert engines.answers(PROFILE, PLATFORM)
        assert engine.asked == 1
        clock.now = 5.1
        assert not engines.answers(PROFILE, PLATFORM)
        engine.says = lambda: None
        clock.now = 10.2
        assert engines.answers(PROFILE, PLATFORM)

    def test_an_engine_that_hangs_is_waited_for_once(self, told: threading.Event) -> None:
        engine, clock = Engine(told.wait), Clock()
        engines = engines_over(engine, clock, wait_seconds=0.2)
        assert not engines.answers(PROFILE, PLATFORM)
        clock.now = 29.0
        engines_later = [engines.answers(PROFILE, PLATFORM) for _ in range(100)]
        assert not any(engines_later)
        assert engine.asked == 1
        engine.says = lambda: None
        clock.now = 31.0
        assert wait_for(lambda: engines.answers(PROFILE, PLATFORM))

    def test_one_that_answered_lately_is_slow_and_not_gone(self, told: threading.Event) -> None:
        engine, clock = Engine(), Clock()
        engines = Engines(Questions(wait_seconds=0.2, clock=clock), lambda *_: cast(Backend, engine), clock)
        assert wait_for(lambda: engines.answers(PROFILE, PLATFORM))
        engine.says = told.wait
        clock.now = 50.0
        assert engines.answers(PROFILE, PLATFORM)
        clock.now = 100.0
        assert not engines.answers(PROFILE, PLATFORM)

    def test_what_nobody_foresaw_is_no_answer(self) -> None:
        def breaks() -> None:
            raise KeyError("Version")

        engines = engines_over(Engine(breaks), Clock())
        assert not engines.answers(PROFILE, PLATFORM)
        with pytest.raises(BackendError, match="What the engine \\(toy\\) says is not understood: KeyError"):
            engines.gpus(PROFILE, PLATFORM)


class TestGpus:
    @pytest.mark.parametrize(("says", "lacks"), [(lambda: True, False), (lambda: False, True), (refuses, False)])
    def test_only_what_is_known_to_be_missing_is(self, says: Callable[[], Any], lacks: bool) -> None:
        assert engines_over(Engine(says), Clock()).lacks_gpus(PROFILE, PLATFORM) is lacks

    def test_a_driver_that_hangs_is_no_missing_gpu(self, told: threading.Event) -> None:
        assert not engines_over(Engine(told.wait), Clock(), wait_seconds=0.1).lacks_gpus(PROFILE, PLATFORM)

    def test_who_has_them_of_an_engine_that_hangs(self, told: threading.Event) -> None:
        engines = engines_over(Engine(told.wait), Clock(), wait_seconds=0.1)
        with pytest.raises(Unanswered, match="no answer from the engine \\(toy\\) within 0.1 s"):
            engines.gpus(PROFILE, PLATFORM)


def wait_for(answers: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Ask until it is so: what is asked in a thread may take longer than the short wait of a test."""
    deadline = time.monotonic() + seconds
    while not answers():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def docker() -> Iterator[None]:
    pytest.importorskip("docker")
    pytest.importorskip("pynvml")
    yield
    gc.collect()


# A socket that cannot be connected is left by the client to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("docker")
class TestDocker:
    """The real client against sockets that are no good engine."""

    @pytest.fixture
    def answers(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
        def ask(url: str, **environ: str) -> bool:
            monkeypatch.setenv("DOCKER_HOST", url)
            return Engines(Questions(wait_seconds=2.0)).answers(PROFILE, PLATFORM)

        return ask

    def test_no_socket(self, answers: Callable[[str], bool], tmp_path: Path) -> None:
        assert not answers(f"unix://{tmp_path}/none.sock")

    def test_a_socket_that_is_an_ordinary_file(self, answers: Callable[[str], bool], tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert not answers(f"unix://{tmp_path}/file")

    def test_one_that_talks_something_else(self, answers: Callable[[str], bool]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=_babble, args=(server,), daemon=True).start()
            assert not answers(f"tcp://127.0.0.1:{server.getsockname()[1]}")

    def test_certificates_that_are_not_there(
        self, answers: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        assert not answers("tcp://127.0.0.1:1")


def _babble(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"220 mail.example ESMTP\r\n")
