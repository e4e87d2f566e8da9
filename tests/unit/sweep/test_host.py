"""One sweep through an engine in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from nemo_airflow_provider.errors import BackendError, Unavailable
from nemo_airflow_provider.logs.store import StreamId
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model.names import WorkloadKey
from nemo_airflow_provider.sweep import host
from nemo_airflow_provider.sweep.engines import SweptEngine
from nemo_airflow_provider.sweep.host import HostSweep
from nemo_airflow_provider.sweep.office import AskedJob, Ending, Hold, JobStanding, WorkloadStanding
from tests.unit.runner.fakes import FakeBackend, FakeConfig, Process, ended

OURS = "0123456789abcdef"


def key(run_key: str = "2NEpo7TZRRrLZSi2U", generation: int = 0) -> WorkloadKey:
    return WorkloadKey("default", "job-1", run_key, "train", generation, 0)


class SweptBackend(FakeBackend, SupportsSweep):
    """A fake engine that can be swept."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []
        self.asked_for: list[str] = []
        self.speaks = True

    def scope(self) -> str:
        return "here"

    def speaks_for(self, engine: str) -> bool:
        return self.speaks

    def held_jobs(self, installation: str) -> Iterable[HeldJob]:
        self._answer("held_jobs")
        self.asked_for.append(installation)
        for run_key in sorted({key.run_key for key in self.processes}):
            keys = tuple(key for key in self.processes if key.run_key == run_key)
            yield HeldJob("default", "job-1", run_key, keys)

    def remove_job(self, workspace: str, run_id: str, run_key: str) -> bool:
        mine = [key for key in self.processes if key.run_key == run_key]
        if any(self.processes[key].end is None for key in mine):
            return False
        for each in mine:
            del self.processes[each]
        self.removed.append(run_key)
        return True


class FakeOffice:
    """Says the same of every job."""

    def __init__(self, workload: WorkloadStanding, job: JobStanding | None = None) -> None:
        self.workload = workload
        self.job = job or JobStanding(hold=Hold.LIVE)
        self.settled: list[Ending] = []

    def chores(self) -> Mapping[str, int]:
        return {}

    def standings(self, jobs: Sequence[AskedJob]) -> Sequence[JobStanding]:
        return [self.job.model_copy(update={"workloads": [self.workload] * len(job.workloads)}) for job in jobs]

    def settle(self, endings: Sequence[Ending]) -> int:
        self.settled += endings
        return len(endings)


@pytest.fixture
def backend() -> SweptBackend:
    return SweptBackend()


def swept(
    backend: SweptBackend,
    office: FakeOffice,
    storage: Path,
    seconds: float = 20,
    variable: Callable[[str], str | None] = lambda _: None,
    configs: Mapping[str, FakeConfig] = {},
) -> dict[str, int]:
    engine = SweptEngine(backend, backend, configs, FakeConfig(ttl_seconds_after_finished=100))
    done = HostSweep(office, OURS, storage, variable, seconds=seconds).run([engine])
    return {name: count for name, count in done.items() if count}


def over(**changes: object) -> WorkloadStanding:
    return WorkloadStanding.model_validate({"hold": Hold.OVER, "settled": False, "engine": "engine-1", **changes})


def test_what_is_live_is_not_even_looked_at(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = Process()
    assert swept(backend, FakeOffice(WorkloadStanding(hold=Hold.LIVE)), tmp_path) == {}
    assert (backend.looks, backend.stopped, backend.cleaned, backend.asked_for) == (0, [], [], [OURS])


def test_a_workload_without_a_runner_is_stopped_stored_and_told(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = Process(b"one\ntwo")
    office = FakeOffice(over(step_index=3, grace_seconds=7))
    assert swept(backend, office, tmp_path) == {"stopped": 1, "settled": 1}
    assert backend.stopped == [(key(), 7)]
    stream = StreamId("default", key().run_key, 3, 0)
    assert [line.message for line in read_from(tmp_path, stream, 0, 10)] == ["one", "two"]
    assert [(each.key, each.exit_code, each.message) for each in office.settled] == [(key(), -15, None)]
    assert backend.cleaned == []


def test_twice_stores_nothing_twice(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = ended(0, b"one\n")
    office = FakeOffice(over())
    for _ in range(2):
        swept(backend, office, tmp_path)
    assert [line.message for line in read_from(tmp_path, StreamId("default", key().run_key, 0, 0), 0, 10)] == ["one"]


def test_one_that_takes_its_time_is_left_for_the_next_sweep(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = Process(b"one\n")
    backend.ends_when_asked = False
    office = FakeOffice(over())
    assert swept(backend, office, tmp_path, seconds=0.05) == {"stopped": 1}
    assert office.settled == []
    backend.processes[key()].end = Observation(Phase.ENDED, exit_code=0)
    assert swept(backend, office, tmp_path) == {"settled": 1}


def test_a_lost_one_is_told_as_lost(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = Process(end=Observation(Phase.LOST, message="The host was restarted."))
    office = FakeOffice(over())
    swept(backend, office, tmp_path)
    assert [(each.exit_code, each.message) for each in office.settled] == [
        (None, "The host was restarted; it was started on engine-1")
    ]


def test_another_engines_is_not_called_lost(backend: SweptBackend, tmp_path: Path) -> None:
    backend.speaks = False
    backend.processes[key()] = Process(end=Observation(Phase.LOST))
    office = FakeOffice(over())
    assert swept(backend, office, tmp_path) == {}
    assert (office.settled, backend.cleaned) == ([], [])


def test_what_is_over_goes_with_its_ttl(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = ended(0)
    assert swept(backend, FakeOffice(over(settled=True, over_seconds=100)), tmp_path) == {}
    assert swept(backend, FakeOffice(over(settled=True, over_seconds=101)), tmp_path) == {"cleaned": 1}
    assert backend.cleaned == [key()]


@pytest.mark.parametrize(
    ("profile", "kept"), [("fake/short", 10), ("fake/long", 500), ("", 500), ("fake/gone", 500)], ids=str
)
def test_whose_profile_nobody_knows_is_kept_as_long_as_the_longest_says(
    backend: SweptBackend, tmp_path: Path, profile: str, kept: float
) -> None:
    """Such as all of a DAG of other people's, whose author may clear a failed task and wants the others' files."""
    configs = {"fake/short": FakeConfig(ttl_seconds_after_finished=10)}
    configs["fake/long"] = FakeConfig(ttl_seconds_after_finished=500)
    named = [profile] if profile else []
    backend.processes[key()] = ended(0)
    for seconds, done in ((kept, {}), (kept + 1, {"removed": 1})):
        job = JobStanding(hold=Hold.OVER, over_seconds=seconds, profiles=named)
        assert swept(backend, FakeOffice(over(settled=True), job), tmp_path, configs=configs) == done
    backend.processes[key()] = ended(0)
    for seconds, done in ((kept, {}), (kept + 1, {"cleaned": 1})):
        workload = over(settled=True, profile=profile, over_seconds=seconds)
        assert swept(backend, FakeOffice(workload), tmp_path, configs=configs) == done


def test_a_deleted_job_is_stopped_and_then_removed(backend: SweptBackend, tmp_path: Path) -> None:
    backend.processes[key()] = Process(b"nobody reads this\n")
    office = FakeOffice(WorkloadStanding(hold=Hold.GONE), JobStanding(hold=Hold.GONE))
    assert swept(backend, office, tmp_path) == {"stopped": 1}
    assert swept(backend, office, tmp_path) == {"removed": 1}
    assert (backend.removed, office.settled) == ([key().run_key], [])
    assert read_from(tmp_path, StreamId("default", key().run_key, 0, 0), 0, 10) == []


@pytest.mark.parametrize("verb", ["held_jobs", "observe"])
def test_what_is_left_is_counted(backend: SweptBackend, tmp_path: Path, verb: str) -> None:
    backend.processes[key()] = Process(b"")
    backend.failing[verb] = 1
    engine = SweptEngine(backend, backend, {}, FakeConfig())
    sweep = HostSweep(FakeOffice(over()), OURS, tmp_path, lambda _: None)
    sweep.run([engine])
    assert sweep.undone == 1


@pytest.mark.parametrize("verb", ["held_jobs", "observe", "stop"])
def test_an_engine_that_does_not_answer_is_left_for_the_next_sweep(
    backend: SweptBackend, tmp_path: Path, verb: str
) -> None:
    backend.processes[key()] = Process(b"")
    backend.failing[verb] = 1
    office = FakeOffice(over())
    assert swept(backend, office, tmp_path).get("settled") is None
    assert swept(backend, office, tmp_path)["settled"] == 1


class TestSecrets:
    """A runner that is gone has taken with it what it knew to hide."""

    LINES = StreamId("default", key().run_key, 0, 0)

    def test_they_are_hidden(self, backend: SweptBackend, tmp_path: Path) -> None:
        backend.processes[key()] = ended(0, b"it is hunter22\n")
        office = FakeOffice(over(secrets=["nemo_secret.default.pw"]))
        swept(backend, office, tmp_path, variable={"nemo_secret.default.pw": "hunter22"}.get)
        assert [line.message for line in read_from(tmp_path, self.LINES, 0, 10)] == ["it is ***"]
        assert len(office.settled) == 1

    def test_nothing_is_stored_that_may_hold_one_that_is_gone(self, backend: SweptBackend, tmp_path: Path) -> None:
        backend.processes[key()] = ended(0, b"it is hunter22\n")
        office = FakeOffice(over(secrets=["nemo_secret.default.pw"]))
        swept(backend, office, tmp_path)
        assert read_from(tmp_path, self.LINES, 0, 10) == []
        assert office.settled[0].details["log_error"] == (
            "The rest of the output is not stored: it may hold secrets that are gone (nemo_secret.default.pw)"
        )

    def test_while_nobody_can_tell_it_waits(self, backend: SweptBackend, tmp_path: Path) -> None:
        def away(_: str) -> str | None:
            raise Unavailable("the secrets backend is away")

        backend.processes[key()] = ended(0, b"it is hunter22\n")
        office = FakeOffice(over(secrets=["nemo_secret.default.pw"]))
        assert swept(backend, office, tmp_path, variable=away) == {}
        assert (office.settled, read_from(tmp_path, self.LINES, 0, 10)) == ([], [])


@pytest.mark.parametrize("error", [BackendError("the disk is broken"), OSError("stale"), KeyError("x")])
def test_one_job_that_cannot_be_swept_keeps_no_other(backend: SweptBackend, tmp_path: Path, error: Exception) -> None:
    first, second = key("2NEpo7TZRRrLZSi2U"), key("3NEpo7TZRRrLZSi2U")
    backend.processes = {first: ended(0), second: ended(0)}
    cleanup = backend.cleanup

    def refuse(of: WorkloadKey) -> None:
        if of == first:
            raise error
        cleanup(of)

    backend.cleanup = refuse  # type: ignore[method-assign]
    assert swept(backend, FakeOffice(over(settled=True, over_seconds=101)), tmp_path) == {"cleaned": 1}
    assert backend.cleaned == [second]


@pytest.mark.parametrize("error", [OSError("stale"), KeyError("x")])
def test_one_rest_that_cannot_be_stored_keeps_no_other(
    backend: SweptBackend, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = key("2NEpo7TZRRrLZSi2U"), key("3NEpo7TZRRrLZSi2U")
    backend.processes = {first: ended(0), second: ended(0)}

    def refused(left: host._Left, _: object) -> str:
        if left.key == first:
            raise error
        return ""

    monkeypatch.setattr(HostSweep, "_pumped", lambda _, *given: refused(*given))
    office = FakeOffice(over())
    assert swept(backend, office, tmp_path) == {"settled": 1}
    assert [each.key for each in office.settled] == [second]


@pytest.mark.parametrize("error", [BackendError("away"), OSError("stale"), KeyError("x")])
def test_one_engine_that_cannot_be_swept_keeps_no_other(
    backend: SweptBackend, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held_jobs(_: str) -> Iterable[HeldJob]:
        raise error

    broken = SweptBackend()
    monkeypatch.setattr(broken, "held_jobs", held_jobs)
    backend.processes[key()] = ended(0)
    engines = [SweptEngine(each, each, {}, FakeConfig()) for each in (broken, backend)]
    assert HostSweep(FakeOffice(over()), OURS, tmp_path, lambda _: None).run(engines)["settled"] == 1


def test_an_office_that_does_not_answer_ends_the_sweep(
    backend: SweptBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Sequence[AskedJob]) -> Sequence[JobStanding]:
        raise Unavailable("The API server does not answer")

    backend.processes[key()] = ended(0)
    office = FakeOffice(over())
    monkeypatch.setattr(office, "standings", away)
    with pytest.raises(Unavailable):
        swept(backend, office, tmp_path)
