"""A pump that is killed at any moment loses and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

from nemo_airflow_provider.logs import pump as pump_module
from nemo_airflow_provider.logs.pump import Pump
from nemo_airflow_provider.logs.store import StreamWriter, line_count
from nemo_airflow_provider.logs.stored import StoredStream, read_from
from tests.waiting import wait_until

from .engine import STREAM, Engine, Write, is_finished

_KILLS = 10
_SECONDS = 60.0
_TASKS = ("task-a", "task-b", "task-rare")


def _writes() -> list[Write]:
    """Interleaved output of three tasks with open lines, rewrites and lines over the limit."""
    choose = random.Random(7)
    writes = []
    for number in range(15_000):
        task = "task-rare" if number % 701 == 0 else _TASKS[choose.randrange(2)]
        stream = choose.choice(("stdout", "stderr"))
        parts = [f"{task} {stream} {number}.{part} é\n" for part in range(choose.randrange(8))]
        data = "".join(parts).encode() + choose.choice((b"", b"open ", b"10%\r20%\r", b"\xe2\x82"))
        writes.append(Write(task, stream, data + (b"x" * 70_000 if number % 5000 == 9 else b"")))
    return writes


def _pump_once(root: Path, writes: list[Write]) -> None:
    """The child: pump to the end, or to the kill."""
    pump_module.COMMIT_SECONDS, pump_module.COMMIT_BYTES = 0.001, 20_000  # many commits, so many places to die
    pump = Pump(Engine(writes, 600).read, root, STREAM, 0, segment_bytes=100_000)
    pump.start()
    pump.join()


def _expected() -> dict[tuple[str, str], list[str]]:
    """Whole lines of each task and stream, split by other means than the assembler's."""
    raw: dict[tuple[str, str], bytes] = {}
    for write in _writes():
        key = (write.task, write.stream)
        raw[key] = raw.get(key, b"") + write.data
    return {key: [_fold(line) for line in _split(data)] for key, data in raw.items()}


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _fold(line: bytes) -> str:
    kept = next((text for text in reversed(line.split(b"\r")) if text), b"")
    text = kept[:65536].decode(errors="replace")
    return text if len(kept) <= 65536 else f"{text} … [cut: {len(kept)} bytes]"


def test_killed_at_random_many_times(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    choose = random.Random(seed)
    writes = _writes()
    deadline = time.monotonic() + _SECONDS
    root, kills = tmp_path / "0", 0
    while kills < _KILLS:
        assert time.monotonic() < deadline, f"{kills} kills of a working pump in {_SECONDS:.0f} s"
        before = line_count(root, STREAM)
        killed = _run_and_kill(root, writes, choose.uniform(0.0, 0.02), after_commit=choose.random() < 0.5)
        seen = line_count(root, STREAM)
        first = max(seen - 50, 0)
        assert [line.seq for line in read_from(root, STREAM, first, 50)] == list(range(first, seen))
        if is_finished(root):
            _check_all(root)
            root = tmp_path / str(kills + 1)
        elif killed and seen > before:
            kills += 1
    last = Pump(Engine(writes).read, root, STREAM, 0)
    last.start()
    assert last.join(60)
    assert last.finished
    _check_all(root)


def _run_and_kill(root: Path, writes: list[Write], seconds: float, after_commit: bool) -> bool:
    """Kill a pump some time after its begin, or after its first commit.

    :return: whether the kill came before the end
    """
    before = line_count(root, STREAM)
    child = os.fork()
    if child == 0:
        try:
            _pump_once(root, writes)
        finally:
            os._exit(0)
    if after_commit:
        wait_until(lambda: line_count(root, STREAM) > before or is_finished(root))
    time.sleep(seconds)  # the moment is random on purpose
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def _check_all(root: Path) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    count = line_count(root, STREAM)
    seq = 0
    while lines := read_from(root, STREAM, seq, 5000):
        for line in lines:
            assert line.seq == seq
            found.setdefault((line.task, line.stream), []).append(line.message)
            seq += 1
    assert seq == count
    assert found == _expected()
    for task in _TASKS:
        with StoredStream(root, STREAM, task) as stored:
            assert stored.total == sum(len(lines) for key, lines in found.items() if key[0] == task)


def test_a_reader_beside_the_writer_sees_a_growing_true_prefix(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        with StreamWriter.open(tmp_path, STREAM, segment_bytes=50_000) as writer:
            number = 0
            while not stop.is_set():
                batch = [(n, f"task-{n % 3}", "stdout", f"line {n}") for n in range(number, number + 37)]
                writer.append(batch)
                writer.commit(number)
                number += 37

    thread = threading.Thread(target=write)
    thread.start()
    try:
        before = 0
        while before < 20_000:
            with StoredStream(tmp_path, STREAM) as stored, StoredStream(tmp_path, STREAM, "task-1") as one:
                assert stored.total >= before
                before = stored.total
                tail = stored.read(max(before - 300, 0), 300, 1_000_000)
                assert [line.message for line in tail] == [f"line {n}" for n in range(max(before - 300, 0), before)]
                middle = one.read(one.total // 2, 5, 1_000_000)
                assert [line.seq for line in middle] == [
                    3 * n + 1 for n in range(one.total // 2, min(one.total // 2 + 5, one.total))
                ]
    finally:
        stop.set()
        thread.join()
