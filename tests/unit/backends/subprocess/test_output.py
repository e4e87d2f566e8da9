"""From the command's pipes to chunks."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Chunk, Phase
from nemo_airflow_provider.backends.subprocess import launch, observation
from nemo_airflow_provider.backends.subprocess.frames import HEADER, MAX_DATA, parse
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until


def run_instead(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start supervisors by other code: its first argument is the directory, its second where our package is."""
    usual = launch._supervisor_command
    at = usual(0, "").index("-c") + 1

    def command(directory: int, name: str) -> list[str]:
        made = usual(directory, name)
        return [*made[:at], code, *made[at + 1 :]]

    monkeypatch.setattr(launch, "_supervisor_command", command)


def frame(data: bytes, stream: int = 1, micros: int = 7) -> bytes:
    return HEADER.pack(micros, stream, len(data)) + data


def test_header_layout() -> None:
    assert frame(b"ab", 2, 1) == b"\1\0\0\0\0\0\0\0" + b"\2" + b"\2\0\0\0" + b"ab"


def test_parse() -> None:
    block = frame(b"one") + frame(b"two", 2, 9)
    found = [(f.micros, f.stream, f.data, f.start, f.end) for f in parse(block, 100, False)]
    assert found == [(7, "stdout", b"one", 100, 116), (9, "stderr", b"two", 116, 132)]


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_torn_frame_waits_and_in_the_end_gives_what_is_there(cut: int) -> None:
    block = frame(b"whole") + frame(b"xyz")[:-cut]
    assert [f.data for f in parse(block, 0, False)] == [b"whole"]
    rest = [f.data for f in parse(block, 0, True)][1:]
    assert rest == ([b"xyz"[:-cut]] if cut <= 3 else [])


def test_an_overwritten_file_is_delivered_as_it_stands() -> None:
    block = frame(b"good") + b"this is no frame at all" * 10
    assert b"".join(f.data for f in parse(block, 0, True)) == b"good" + b"this is no frame at all" * 10


def test_streams_and_times(host: Host) -> None:
    before = time.time_ns() // 1000
    host.shell("echo out; sleep 0.05; echo err >&2; sleep 0.05; echo again")
    host.end()
    chunks = host.chunks()
    assert [(c.stream, c.data) for c in chunks] == [("stdout", b"out\n"), ("stderr", b"err\n"), ("stdout", b"again\n")]
    assert {c.task for c in chunks} == {key().task}
    times = [c.micros for c in chunks]
    assert before < times[0] < times[1] < times[2] < time.time_ns() // 1000
    assert [c.start for c in chunks[1:]] == [c.end for c in chunks[:-1]]


def test_binary_bytes_and_a_missing_last_newline(host: Host) -> None:
    host.python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 300 + b'\\r\\n\\0end')")
    host.end()
    assert host.output() == bytes(range(256)) * 300 + b"\r\n\0end"


def test_one_line_of_8_mb(host: Host) -> None:
    host.python("import sys; sys.stdout.write('x' * 8_000_000 + '\\n')")
    host.end()
    chunks = host.chunks()
    assert b"".join(c.data for c in chunks) == b"x" * 8_000_000 + b"\n"
    assert max(len(c.data) for c in chunks) <= MAX_DATA


def test_a_million_lines_are_all_there(host: Host) -> None:
    host.python("for i in range(1000000): print(i)")
    host.end(seconds=60)
    assert host.output() == b"".join(b"%d\n" % i for i in range(1_000_000))


def test_resuming_at_any_chunk_repeats_and_loses_nothing(host: Host) -> None:
    host.python("import time, os\nfor i in range(20): os.write(1 + i % 2, b'%d\\n' % i); time.sleep(0.002)")
    host.end()
    whole = host.chunks()
    assert len(whole) > 5
    for index, chunk in enumerate(whole):
        assert host.chunks(position=chunk.start) == whole[index:]
        assert host.chunks(position=chunk.end) == whole[index + 1 :]


def test_output_is_delivered_while_it_runs_with_signs_of_life(host: Host) -> None:
    host.shell("echo first; sleep 1.3; echo last")
    reader = host.backend.read_logs(key(), None, Event())
    chunk = next(c for c in reader if c is not None)
    assert chunk.data == b"first\n"
    seen: list[Chunk | None] = list(reader)
    assert host.backend.observe(key()).phase is Phase.ENDED
    assert seen.count(None) >= 1
    assert [c.data for c in seen if c] == [b"last\n"]


def test_a_reader_stops_when_told(host: Host) -> None:
    host.shell("echo x; sleep 60")
    stop = Event()
    for chunk in host.backend.read_logs(key(), None, stop):
        if chunk:
            stop.set()
    host.backend.stop(key(), 0)
    host.end()


def test_a_torn_last_frame_of_a_dead_supervisor(host: Host) -> None:
    host.shell("echo whole; sleep 60")
    wait_until(lambda: (host.control() / "output").stat().st_size > HEADER.size)
    host.kill_supervisor()
    size = (host.control() / "output").stat().st_size
    with (host.control() / "output").open("ab") as file:
        file.write(frame(b"half of it")[:-3])
    assert host.output() == b"whole\nhalf of"
    assert host.chunks()[-1].end == size + HEADER.size + 7
    assert host.chunks(position=host.chunks()[-1].end) == []
    assert host.backend.observe(key()).phase is Phase.LOST


def test_a_full_disk_loses_nothing(host: Host) -> None:
    wait_for_word = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    host.python(wait_for_word + "for i in range(50000): print('line', i)")
    supervisor = host.supervisor()
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    (host.work() / "go").touch()
    wait_until(lambda: (host.control() / "output").stat().st_size == 100_000)
    assert host.backend.observe(key()).phase is Phase.RUNNING
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert host.end().exit_code == 0
    assert host.output() == b"".join(b"line %d\n" % i for i in range(50_000))


def test_a_full_disk_does_not_keep_a_stop_from_working(host: Host) -> None:
    details = host.shell("sleep 0.2; yes")
    supervisor = host.supervisor()
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
    wait_until(lambda: (host.control() / "output").stat().st_size == 50_000)
    host.backend.stop(key(), 0)
    wait_until(lambda: not lives(details["pid"]))
    assert host.backend.observe(key()).phase is Phase.RUNNING  # its last output is not written yet
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    seen = host.end()
    assert seen.stopped == "asked"
    assert set(host.output().split(b"\n")) <= {b"y", b""}


#: Runs a supervisor on a disk where, at its end, no file can be made any more.
NO_NEW_FILE = """
import errno, os, sys
sys.path.append(sys.argv[2])
from nemo_airflow_provider.backends.subprocess import control, supervisor
write_file = control.write_file
def write(directory, name, data):
    if name == "exit.json":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    write_file(directory, name, data)
control.write_file = write
supervisor.main(int(sys.argv[1]))
"""


def test_the_end_is_noted_where_no_file_can_be_made_any_more(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(NO_NEW_FILE, monkeypatch)
    host.shell("exit 4")
    assert host.end().exit_code == 4


#: Runs a supervisor that waits for room on a full disk for the third part of a second after it was asked to stop.
IMPATIENT = """
import sys
sys.path.append(sys.argv[2])
from nemo_airflow_provider.backends.subprocess import supervisor
supervisor._FULL_DISK_SECONDS = 0.3
supervisor.main(int(sys.argv[1]))
"""


def test_a_disk_that_stays_full_ends_with_a_stop(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(IMPATIENT, monkeypatch)
    host.shell("sleep 0.2; yes")
    supervisor = host.supervisor()
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
    wait_until(lambda: (host.control() / "output").stat().st_size == 50_000)
    host.backend.stop(key(), 0)
    seen = host.end()
    assert (seen.phase, seen.stopped) == (Phase.ENDED, "asked")
    assert "stayed full" in seen.details["log_error"]
    assert len(host.output()) > 40_000


def test_a_full_disk_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.shell("sleep 60")
    assert host.backend.observe(key()).message is None
    real = os.fstatvfs
    for used_up in ({4: 0}, {7: 0}):  # f_bavail: blocks; f_favail: files

        def full(file: int, used_up: dict[int, int] = used_up) -> os.statvfs_result:
            found = real(file)
            return os.statvfs_result([used_up.get(index, value or 1) for index, value in enumerate(found)])

        monkeypatch.setattr(observation.os, "fstatvfs", full)
        assert "is full" in str(host.backend.observe(key()).message)
    host.backend.stop(key(), 0)
    host.end()


#: Runs a supervisor whose disk takes a second for ten frames.
SLOW_DISK = """
import os, sys, time, types
sys.path.append(sys.argv[2])
from nemo_airflow_provider.backends.subprocess import copier, supervisor
def write(file, data):
    time.sleep(0.1)
    return os.write(file, data)
copier.os = types.SimpleNamespace(**{**vars(os), "write": write})
supervisor.main(int(sys.argv[1]))
"""


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(SLOW_DISK, monkeypatch)


@pytest.mark.usefixtures("slow_disk")
def test_a_slow_disk_loses_nothing(host: Host) -> None:
    host.python("import os; os.write(1, b'x' * 1_000_000); os.write(2, b'y' * 1_000_000)")
    assert host.end().exit_code == 0
    assert len(host.output()) == 2_000_000
    assert host.output(stream="stdout") == b"x" * 1_000_000


@pytest.mark.usefixtures("slow_disk")
def test_a_stranger_who_never_stops_writing_does_not_keep_the_end_away(host: Host) -> None:
    details = host.shell("sleep 0.3")
    over = Event()
    with Path(f"/proc/{details['pid']}/fd/1").open("wb", buffering=0) as pipe, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: [pipe.write(b"z" * 4096) for _ in iter(over.is_set, True)])
        try:
            assert host.end().exit_code == 0
        finally:
            over.set()


def test_output_is_complete_when_the_end_is_seen(host: Host) -> None:
    for start in range(5):
        of = key(start=start)
        host.python("import sys; sys.stdout.write('z' * 700_000)", of)
        wait_until(lambda of=of: host.backend.observe(of).phase is Phase.ENDED)
        assert len(host.output(of)) == 700_000
