"""What `backends.base.Backend` promises, asked of every backend."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, Timer

from nemo_airflow_provider.backends.base import Backend, Chunk, Observation, Phase
from nemo_airflow_provider.model.names import WorkloadKey
from tests.contract.harness import Harness

# Without a word of the shell about what was ended with it.
LOOP = "while :; do sleep 0.05; done 2>/dev/null"


def end(engine: Harness, backend: Backend, key: WorkloadKey | None = None) -> Observation:
    """The observation of an ended workload; fails when it does not end in time."""
    key = key or engine.key()
    deadline = time.monotonic() + engine.seconds
    while (seen := backend.observe(key)).phase in (Phase.PENDING, Phase.RUNNING):
        assert time.monotonic() < deadline, seen
        backend.wait(key, 1, Event())
    return seen


def running(engine: Harness, backend: Backend) -> None:
    """Wait for the first word of the workload."""
    reader = backend.read_logs(engine.key(), None, Event())
    assert next((chunk for chunk in reader if chunk), None), "it ended without a word"


def chunks(backend: Backend, key: WorkloadKey, position: object = None) -> list[Chunk]:
    return [chunk for chunk in backend.read_logs(key, position, Event()) if chunk]


def text(backend: Backend, key: WorkloadKey) -> bytes:
    return b"".join(chunk.data for chunk in chunks(backend, key))


def test_identity_is_that_of_the_engine(engine: Harness, backend: Backend) -> None:
    assert backend.identity()
    assert engine.make().identity() == backend.identity()


def test_every_verb_bears_something_unknown(engine: Harness, backend: Backend) -> None:
    key = engine.key()
    assert backend.observe(key).phase is Phase.ABSENT
    assert list(backend.find(key)) == []
    assert chunks(backend, key) == []
    for _ in range(2):
        backend.stop(key, 1)
        backend.cleanup(key)
    backend.wait(key, 0.05, Event())


def test_success(engine: Harness, backend: Backend) -> None:
    details = backend.submit(engine.workload("echo done"))
    assert details
    seen = end(engine, backend)
    assert (seen.phase, seen.exit_code, seen.stopped, seen.error) == (Phase.ENDED, 0, None, None)
    assert text(backend, engine.key()) == b"done\n"


def test_the_exit_code_decides(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("echo all is well; exit 42"))
    assert end(engine, backend).exit_code == 42


def test_an_ended_workload_stays_ended(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("exit 3"))
    seen = end(engine, backend)
    backend.stop(engine.key(), 0)
    assert backend.observe(engine.key()) == seen
    assert engine.make().observe(engine.key()) == seen


def test_a_second_submit_adopts(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("echo first; sleep 0.3"))
    engine.make().submit(engine.workload("echo second"))
    end(engine, backend)
    engine.make().submit(engine.workload("echo third"))
    assert end(engine, backend).exit_code == 0
    assert text(backend, engine.key()) == b"first\n"


def test_submits_at_the_same_time_start_one_workload(engine: Harness, backend: Backend) -> None:
    workload = engine.workload("echo once; sleep 0.3")
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: engine.make().submit(workload), range(5)))
    end(engine, backend)
    assert text(backend, engine.key()) == b"once\n"
    assert list(backend.find(engine.key())) == [engine.key()]


def test_starts_and_generations_are_workloads_of_their_own(engine: Harness, backend: Backend) -> None:
    mine = [engine.key(), engine.key(start=1), engine.key(generation=1)]
    for number, key in enumerate([*mine, engine.key("evaluate")]):
        backend.submit(engine.workload(f"exit {number}", key))
    assert [end(engine, backend, key).exit_code for key in mine] == [0, 1, 2]
    end(engine, backend, engine.key("evaluate"))
    assert sorted(backend.find(engine.key(generation=7))) == sorted(mine)
    assert list(backend.find(engine.key("nothing"))) == []


def test_runs_of_one_run_id_know_nothing_of_each_other(engine: Harness, backend: Backend) -> None:
    """Another DAG of the workspace may have a run of the same id."""
    mine, other = engine.key(), replace(engine.key(), run_key=f"{engine.run_key}2")
    backend.submit(engine.workload(f"echo ready; {LOOP}"))
    running(engine, backend)
    backend.submit(engine.workload("exit 3", other))
    assert end(engine, backend, other).exit_code == 3
    assert list(backend.find(mine)) == [mine]
    assert list(backend.find(other)) == [other]
    backend.cleanup(other)
    assert backend.observe(mine).phase is Phase.RUNNING
    assert backend.observe(other).phase is Phase.ABSENT


def test_the_workload_sees_its_environment_and_configuration(engine: Harness, backend: Backend) -> None:
    script = 'echo "$NEMO_JOB_ID|$NEMO_JOB_TASK|$MINE|$NHX_BASE_URL|$TOKEN|"; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"'
    workload = engine.workload(
        script,
        config={"epochs": 3},
        step={"MINE": "two words"},
        platform={"NHX_BASE_URL": "http://localhost"},
        secrets={"TOKEN": "secret"},
    )
    backend.submit(workload)
    end(engine, backend)
    task = engine.key().task
    expected = f'contract|{task}|two words|http://localhost|secret|\n{{"epochs": 3}}'
    assert text(backend, engine.key()).decode().rstrip("\n") == expected


def test_ephemeral_storage_is_there(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload('cd "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH" && echo x > file && cat file'))
    assert end(engine, backend).exit_code == 0
    assert text(backend, engine.key()) == b"x\n"


def test_names_in_the_current_directory_are_the_commands_own(engine: Harness, backend: Backend) -> None:
    make = "echo mine > output; mkdir started stop; touch exit.json alive workload.json"
    remove = "rm -r output started stop exit.json alive workload.json"
    backend.submit(engine.workload(f"set -e; echo first; {make}; echo made; {remove}; echo last"))
    seen = end(engine, backend)
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 0, None)
    assert text(backend, engine.key()) == b"first\nmade\nlast\n"
    assert list(backend.find(engine.key())) == [engine.key()]


def test_output_is_in_order_with_stream_and_time(engine: Harness, backend: Backend) -> None:
    before = time.time_ns() // 1000
    backend.submit(engine.workload("echo out; sleep 0.2; echo err >&2; sleep 0.2; printf 'no end'"))
    end(engine, backend)
    found = chunks(backend, engine.key())
    assert [(chunk.stream, chunk.data.strip()) for chunk in found] == [
        ("stdout", b"out"),
        ("stderr" if engine.has_streams else "stdout", b"err"),
        ("stdout", b"no end"),
    ]
    assert before < found[0].micros < found[1].micros < found[2].micros < time.time_ns() // 1000


def test_every_line_is_there_when_the_end_is_seen(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done"))
    end(engine, backend)
    assert text(backend, engine.key()) == b"".join(b"%d\n" % number for number in range(20_000))


def test_a_resumed_reader_neither_repeats_nor_misses(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("for i in 1 2 3 4 5 6; do echo $i; sleep 0.03; done"))
    end(engine, backend)
    whole = chunks(backend, engine.key())
    for index, chunk in enumerate(whole):
        assert chunks(engine.make(), engine.key(), chunk.end) == whole[index + 1 :]
        assert chunks(engine.make(), engine.key(), chunk.start) == whole[index:]


def test_a_reader_follows_gives_signs_of_life_and_ends_by_itself(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("echo first; sleep 1.5; echo last"))
    seen = list(backend.read_logs(engine.key(), None, Event()))
    assert b"".join(chunk.data for chunk in seen if chunk) == b"first\nlast\n"
    first = next(place for place, chunk in enumerate(seen) if chunk)
    assert None in seen[first:]
    assert end(engine, backend).exit_code == 0


def test_a_reader_can_be_told_to_stop(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload(f"echo first; {LOOP}"))
    running(engine, backend)
    stop = Event()
    Timer(0.3, stop.set).start()
    assert any(list(backend.read_logs(engine.key(), None, stop)))
    assert backend.observe(engine.key()).phase is Phase.RUNNING


def test_a_graceful_stop(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload(f"trap 'echo bye; exit 5' TERM; echo ready; {LOOP}"))
    running(engine, backend)
    asked = time.monotonic()
    backend.stop(engine.key(), 60)
    assert time.monotonic() - asked < 40  # well before the grace is over
    seen = end(engine, backend)
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 5, "asked")
    assert b"bye\n" in text(backend, engine.key())


def test_a_hard_stop(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload(f"trap '' TERM; echo ready; {LOOP}"))
    running(engine, backend)
    for grace in (30, 0.2, 30):
        engine.make().stop(engine.key(), grace)
    seen = end(engine, backend)
    assert seen.phase is Phase.ENDED
    assert seen.exit_code != 0


def test_cleanup_leaves_a_running_workload_alone(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload(f"trap 'echo done; exit 0' TERM; echo ready; {LOOP}"))
    running(engine, backend)
    backend.cleanup(engine.key())
    assert backend.observe(engine.key()).phase is Phase.RUNNING
    backend.stop(engine.key(), 60)
    assert end(engine, backend).exit_code == 0
    assert text(backend, engine.key()) == b"ready\ndone\n"


def test_cleanup_removes_what_an_ended_workload_left(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("true"))
    end(engine, backend)
    for _ in range(2):
        backend.cleanup(engine.key())
    assert backend.observe(engine.key()).phase is Phase.ABSENT
    assert list(backend.find(engine.key())) == []
    assert chunks(backend, engine.key()) == []


def test_wait_returns_at_the_end(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload("sleep 0.3"))
    begin = time.monotonic()
    seen = end(engine, backend)
    assert seen.exit_code == 0
    assert time.monotonic() - begin < engine.seconds


def test_wait_can_be_woken_and_is_bounded(engine: Harness, backend: Backend) -> None:
    backend.submit(engine.workload(f"echo ready; {LOOP}"))
    running(engine, backend)
    begin = time.monotonic()
    backend.wait(engine.key(), 0.2, Event())
    wake = Event()
    Timer(0.2, wake.set).start()
    backend.wait(engine.key(), 60, wake)
    assert time.monotonic() - begin < 30
