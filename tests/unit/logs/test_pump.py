from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.errors import BackendError, OutputLost
from nemo_airflow_provider.logs import pump as pump_module
from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.logs.pump import Pump, Source
from nemo_airflow_provider.logs.store import (
    StreamRemoved,
    StreamWriter,
    line_count,
    remove_run,
)
from nemo_airflow_provider.logs.stored import read_from
from tests.waiting import wait_until

from .engine import STREAM, TASK, Engine, Write, chunk, is_finished

OUTPUT = Engine([Write(TASK, "stdout", b"".join(b"line %d\n" % n for n in range(1000)) + b"the end")], 500)
EXPECTED = [*(f"line {n}" for n in range(1000)), "the end"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_module, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pump_module, "LOCK_SECONDS", 0.01)


def _messages(root: Path) -> list[str]:
    return [line.message for line in read_from(root, STREAM, 0, 100_000)]


def _pumped(source: Source, root: Path, start: int = 0, secrets: tuple[str, ...] = ()) -> Pump:
    pump = Pump(source, root, STREAM, start)
    pump.start(Mask(secrets))
    assert pump.join(60)
    return pump


def test_all_output_is_stored_to_the_last_byte(tmp_path: Path) -> None:
    pump = _pumped(OUTPUT.read, tmp_path)
    assert (pump.finished, pump.error, pump.trouble) == (True, None, None)
    assert _messages(tmp_path) == EXPECTED
    assert is_finished(tmp_path)


def test_a_second_pump_of_the_same_start_reads_nothing(tmp_path: Path) -> None:
    _pumped(OUTPUT.read, tmp_path)

    def never(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        raise AssertionError("the source is not to be asked")

    pump = _pumped(never, tmp_path)
    assert (pump.finished, pump.error) == (True, None)
    assert line_count(tmp_path, STREAM) == 1001


def test_another_start_begins_at_its_own_beginning(tmp_path: Path) -> None:
    _pumped(OUTPUT.read, tmp_path, start=0)
    pump = _pumped(Engine([Write("task-2", "stdout", b"again\n")]).read, tmp_path, start=1)
    assert pump.finished
    assert _messages(tmp_path) == [*EXPECTED, "again"]


def test_secrets_never_reach_the_store(tmp_path: Path) -> None:
    _pumped(Engine([Write(TASK, "stdout", b"key=hun\nkey=hunter22\n")], 6).read, tmp_path, 0, ("hunter22",))
    assert _messages(tmp_path) == ["key=hun", "key=***"]


def test_a_secret_of_several_lines_never_reaches_the_store(tmp_path: Path) -> None:
    secret = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nab\n-----END KEY-----\n"
    _pumped(Engine([Write(TASK, "stdout", f"key: {secret}end\n".encode())], 7).read, tmp_path, 0, (secret,))
    assert _messages(tmp_path) == ["key: ***", "***", "ab", "***", "end"]


def test_stderr_can_be_marked(tmp_path: Path) -> None:
    engine = Engine([Write(TASK, "stdout", b"fine\n"), Write(TASK, "stderr", b"odd\n\n")])
    pump = Pump(engine.read, tmp_path, STREAM, 0, stderr_prefix="[stderr] ")
    pump.start()
    assert pump.join(60)
    assert _messages(tmp_path) == ["fine", "[stderr] odd", "[stderr] "]


def test_lines_are_readable_while_the_source_is_quiet(tmp_path: Path) -> None:
    go_on = threading.Event()

    def source(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        yield chunk(b"one\ntwo\nthr", 0)
        yield chunk(b"ee\nopen", 11)
        while not go_on.wait(0.005):
            yield None
        yield chunk(b" no more", 18)

    pump = Pump(source, tmp_path, STREAM, 0)
    pump.start()
    wait_until(lambda: line_count(tmp_path, STREAM) == 3)
    assert not pump.finished
    go_on.set()
    assert pump.join(60)
    assert _messages(tmp_path) == ["one", "two", "three", "open no more"]


def test_a_stopped_pump_keeps_open_lines_for_the_next(tmp_path: Path) -> None:
    def source(position: int | None, stop: threading.Event) -> Iterator[Chunk | None]:
        yield chunk(b"one\nop", 0)
        while not stop.wait(0.005):
            yield None

    pump = Pump(source, tmp_path, STREAM, 0)
    pump.start()
    wait_until(lambda: line_count(tmp_path, STREAM) == 1)
    assert not pump.join(0)
    pump.stop()
    assert pump.join(60)
    assert (pump.finished, pump.error) == (False, None)
    assert not is_finished(tmp_path)
    assert _pumped(Engine([Write(TASK, "stdout", b"one\nopen\n")]).read, tmp_path).finished
    assert _messages(tmp_path) == ["one", "open"]


@pytest.mark.parametrize("error", [BackendError("engine away"), ConnectionResetError("reset")])
def test_a_failing_engine_is_asked_again_where_it_stopped(tmp_path: Path, error: Exception) -> None:
    troubles: list[str | None] = []
    asked: list[int | None] = []

    def source(position: int | None, stop: threading.Event) -> Iterator[Chunk | None]:
        asked.append(position)
        troubles.append(pump.trouble)
        for number, item in enumerate(OUTPUT.read(position, stop)):
            if number == 4 and len(asked) < 4:
                raise error
            yield item

    pump = Pump(source, tmp_path, STREAM, 0)
    pump.start()
    assert pump.join(60)
    assert pump.finished
    assert pump.trouble is None
    assert troubles[0] is None
    assert str(error) in str(troubles[1])
    assert len(asked) == 4
    assert asked[0] is None and asked[1] is not None and asked[1] > 1000
    assert _messages(tmp_path) == EXPECTED


def test_an_engine_that_stays_away_can_be_stopped(tmp_path: Path) -> None:
    def source(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        raise BackendError("engine away")

    pump = Pump(source, tmp_path, STREAM, 0)
    pump.start()
    wait_until(lambda: pump.trouble is not None)
    pump.stop()
    assert pump.join(60)
    assert (pump.finished, pump.error) == (False, None)


def test_output_that_cannot_be_had_ends_the_pump_after_what_was(tmp_path: Path) -> None:
    def lost(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        yield chunk(b"one\n")
        raise OutputLost("the engine does not read its own file")

    pump = _pumped(lost, tmp_path)
    assert (pump.finished, str(pump.error)) == (False, "the engine does not read its own file")
    assert _messages(tmp_path) == ["one"]


def test_a_fault_in_the_source_ends_the_pump_with_it(tmp_path: Path) -> None:
    def source(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        yield chunk(b"one\n")
        raise ZeroDivisionError

    pump = _pumped(source, tmp_path)
    assert isinstance(pump.error, ZeroDivisionError)
    assert not pump.finished
    assert _pumped(Engine([Write(TASK, "stdout", b"one\ntwo\n")]).read, tmp_path).finished
    assert _messages(tmp_path) == ["one", "two"]


def test_a_full_disk_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = threading.Event()
    full.set()
    real_write = pump_module.StreamWriter._write

    def write(self: StreamWriter, path: str, offset: int, data: bytes) -> None:
        real_write(self, path, offset, data[: len(data) // 2] if full.is_set() else data)
        if full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pump_module.StreamWriter, "_write", write)
    pump = Pump(OUTPUT.read, tmp_path, STREAM, 0)
    pump.start()
    wait_until(lambda: "No space left" in (pump.trouble or ""))
    assert line_count(tmp_path, STREAM) == 0
    full.clear()
    assert pump.join(60)
    assert (pump.finished, pump.trouble) == (True, None)
    assert _messages(tmp_path) == EXPECTED


def test_a_held_stream_is_waited_for(tmp_path: Path) -> None:
    holder = StreamWriter.open(tmp_path, STREAM)
    pump = Pump(OUTPUT.read, tmp_path, STREAM, 0)
    stopped = Pump(OUTPUT.read, tmp_path, STREAM, 0)
    for each in (pump, stopped):
        each.start()
        wait_until(lambda each=each: each.waiting)  # type: ignore[misc]
    stopped.stop()
    assert stopped.join(60)
    assert (stopped.finished, stopped.error) == (False, None)
    holder.close()
    assert pump.join(60)
    assert (pump.finished, pump.waiting) == (True, False)
    assert _messages(tmp_path) == EXPECTED


def test_a_pump_whose_job_was_deleted_ends(tmp_path: Path) -> None:
    def source(position: object, stop: threading.Event) -> Iterator[Chunk | None]:
        yield chunk(b"one\n", 0)
        yield None
        remove_run(tmp_path, STREAM.workspace, STREAM.run_key)
        yield chunk(b"two\n", 4)
        yield None

    pump = _pumped(source, tmp_path)
    assert isinstance(pump.error, StreamRemoved)
