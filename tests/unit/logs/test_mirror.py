from __future__ import annotations

import threading
from pathlib import Path

from nemo_airflow_provider.logs.mirror import Mirror, MirrorSummary
from nemo_airflow_provider.logs.store import StreamWriter
from nemo_airflow_provider.model.logline import LogLine
from tests.waiting import wait_until

from .engine import BEGAN, STREAM, TASK


def _append(root: Path, count: int) -> None:
    with StreamWriter.open(root, STREAM) as writer:
        first = writer.next_seq
        writer.append([(BEGAN, TASK, "stdout", f"line {n}") for n in range(first, first + count)])
        writer.commit(None)


class _Log(list[int]):
    """The other log: the numbers of the lines it got."""

    def emit(self, line: LogLine) -> None:
        assert line.message == f"line {line.seq}"
        self.append(line.seq)


def _mirror(root: Path, log: _Log, lines: int = 300) -> Mirror:
    mirror = Mirror(root, STREAM, log.emit, lines=lines)
    mirror.start()
    return mirror


def test_lines_are_copied_while_they_come(tmp_path: Path) -> None:
    log = _Log()
    mirror = _mirror(tmp_path, log)
    for count in (10, 250):
        _append(tmp_path, count)
        wait_until(lambda count=count: len(log) in (10, 260) and len(log) >= count)  # type: ignore[misc]
    _append(tmp_path, 5)
    assert mirror.finish(10) == MirrorSummary(265, 0)
    assert log == list(range(265))


def test_only_the_first_and_the_last_lines_of_a_long_log(tmp_path: Path) -> None:
    log = _Log()
    mirror = _mirror(tmp_path, log)
    _append(tmp_path, 1000)
    wait_until(lambda: len(log) == 300)
    _append(tmp_path, 1000)
    assert mirror.finish(10) == MirrorSummary(2000, 1400)
    assert log == [*range(300), *range(1700, 2000)]


def test_the_first_lines_come_first_though_the_log_was_quick(tmp_path: Path) -> None:
    for total in (0, 299, 300, 301, 599, 600, 601, 5000):
        root = tmp_path / str(total)
        _append(root, total)
        log = _Log()
        mirror = _mirror(root, log)
        assert mirror.finish(10) == MirrorSummary(total, max(total - 600, 0))
        assert log == [n for n in range(total) if n < 300 or n >= total - 300]


def test_the_next_try_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    first, second = _Log(), _Log()
    _append(tmp_path, 100)
    mirror = _mirror(tmp_path, first)
    wait_until(lambda: len(first) == 100)
    mirror.finish(10)
    _append(tmp_path, 900)
    assert _mirror(tmp_path, second).finish(10) == MirrorSummary(1000, 400)
    assert first + second == [*range(300), *range(700, 1000)]


def test_a_slow_log_gets_the_very_last_lines_in_time(tmp_path: Path) -> None:
    now = 0.0
    log = _Log()

    def slow(line: LogLine) -> None:
        nonlocal now
        assert mirror._end.wait(60)  # so that all lines are copied at the end
        now += 0.001
        log.emit(line)

    _append(tmp_path, 20_000)
    mirror = Mirror(tmp_path, STREAM, slow, lines=5000, clock=lambda: now)
    mirror.start()
    summary = mirror.finish(1.0)
    mirror._thread.join(60)
    assert log[-1] == 19_999
    assert log == sorted(set(log))
    assert 800 <= len(log) <= 1001
    assert summary.lines == 20_000


def test_a_hanging_log_does_not_hold_the_step(tmp_path: Path) -> None:
    go_on = threading.Event()
    log = _Log()

    def hang(line: LogLine) -> None:
        log.emit(line)
        go_on.wait(60)

    _append(tmp_path, 10)
    mirror = Mirror(tmp_path, STREAM, hang)
    mirror.start()
    wait_until(lambda: len(log) == 1)
    assert mirror.finish(0.01).not_mirrored >= 9
    go_on.set()
    mirror._thread.join(60)
    assert log == [0]


def test_a_log_that_fails_is_left_alone(tmp_path: Path) -> None:
    def fail(line: LogLine) -> None:
        raise RuntimeError("the log is closed")

    _append(tmp_path, 10)
    mirror = Mirror(tmp_path, STREAM, fail)
    mirror.start()
    assert mirror.finish(10) == MirrorSummary(10, 10)
