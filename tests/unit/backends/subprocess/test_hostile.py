"""A workload that puts something else in the place of our files: it ends in bounded time and hurts nobody."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import shlex
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until

#: What is replaced, seen from the work directory.
TARGETS = (
    "../..",
    "..",
    ".",
    ".nemo",
    *(f".nemo/{name}" for name in ("output", "exit.json", "started", "alive", "stop", "workload.json")),
)
_BIND = "import os, socket, sys; os.chdir(sys.argv[1]); socket.socket(socket.AF_UNIX).bind(sys.argv[2])"
_PYTHON = f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(_BIND)}"
#: Shell commands that make something called $name in the directory $above.
KINDS = {
    "nothing": "true",
    "file": "echo '{' > $above/$name",
    "directory": "mkdir -p $above/$name/inner",
    "link": "ln -s /dev/zero $above/$name",
    "loop": "ln -s $name $above/$name",
    "fifo": "mkfifo $above/$name",
    "socket": f"{_PYTHON} $above $name",
    "device": "mknod $above/$name c 1 5",
}
#: It is not there yet.
UNCHANGED = [(".nemo/exit.json", "nothing")]
LIVE = (Phase.PENDING, Phase.RUNNING)


def possible_kinds() -> list[str]:
    """Only root can make devices."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            os.mknod(Path(directory, "device"), 0o020600, os.makedev(1, 5))
        except PermissionError:
            return [kind for kind in KINDS if kind != "device"]
    return list(KINDS)


def wait_over(host: Host, of: WorkloadKey) -> Observation:
    """The look that says it is over; nothing of it lives then."""
    wait_until(lambda: host.backend.observe(of).phase not in LIVE)
    wait_until(lambda: not host.processes(of))
    return host.backend.observe(of)


@dataclass
class Attack:
    """A workload that says `before`, waits for the word, and then replaces something."""

    host: Host
    key: WorkloadKey
    pid: int
    reader: Future[bytes]

    @classmethod
    def begin(cls, host: Host, of: WorkloadKey, target: str, kind: str, after: str, pool: ThreadPoolExecutor) -> Attack:
        path = Path(os.path.normpath(host.work(of) / target))
        names = f"above={shlex.quote(str(path.parent))}; name={shlex.quote(path.name)}"
        replace = f"if test -e $above/$name; then mv -T $above/$name $above/$name.away; fi; {KINDS[kind]}"
        script = f"{names}; mkfifo scratch/go; echo before; read go < scratch/go; {replace}; {after}"
        pid = host.shell(script, of)["pid"]
        return cls(host, of, pid, pool.submit(host.output, of))

    def release(self) -> None:
        """Give the word, once a reader of the output has come as far as the workload itself."""
        wait_until(lambda: b"before" in self.host.output_file(self.key))
        word = os.open(self.host.work(self.key) / "scratch" / "go", os.O_RDWR)
        os.write(word, b"go\n")
        wait_until(lambda: self.replaced)
        os.close(word)

    @property
    def replaced(self) -> bool:
        return not lives(self.pid) or Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n"

    def end(self) -> Observation:
        """The look that says it is over."""
        wait_until(lambda: self.host.backend.observe(self.key).phase not in LIVE)
        return self.host.backend.observe(self.key)

    def assert_gone(self) -> None:
        """Nothing runs, what was printed was read, every verb returns, and all can be removed."""
        backend, of = self.host.backend, self.key
        wait_until(lambda: not lives(self.pid))
        assert self.reader.result(60) == b"before\n"
        backend.stop(of, 0)
        backend.wait(of, 0.05, Event())
        list(backend.find(of))
        self.host.chunks(of)
        wait_until(lambda: not self.host.processes(of))
        backend.cleanup(of)
        assert not os.path.lexists(self.host.work(of))
        assert backend.remove_job(of.workspace, of.run_id, of.run_key)
        assert not os.path.lexists(self.host.work(of).parents[1])


Attacks = Mapping[tuple[str, str], Attack]
PAIRS = [pair for pair in itertools.product(TARGETS, possible_kinds()) if pair not in UNCHANGED]
STOPPED = [pair for pair in PAIRS if pair[1] in ("directory", "fifo")]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host.make(tmp_path_factory.mktemp("hostile") / "work", graceful_shutdown_timeout_seconds=1)
    yield made
    wait_until(lambda: not made.processes())


def begin(host: Host, pairs: list[tuple[str, str]], after: str, pool: ThreadPoolExecutor) -> Attacks:
    """All at once, each in a job of its own: most of their time is waiting."""
    begun: dict[tuple[str, str], Attack] = {}
    try:
        for number, (target, kind) in enumerate(pairs):
            of = key(run_key=f"{after[:4]}{number}")
            begun[target, kind] = Attack.begin(host, of, target, kind, after, pool)
        for attack in begun.values():
            attack.release()
    except BaseException:
        # The pool waits for its readers, and they for the ends of the workloads.
        host.kill()
        raise
    return begun


@pytest.fixture(scope="module")
def attacks(hostile: Host) -> Iterator[Attacks]:
    """They would go on for ten minutes."""
    with ThreadPoolExecutor(len(PAIRS)) as pool:
        yield begin(hostile, PAIRS, "exec sleep 600", pool)


@pytest.fixture(scope="module")
def stopped(hostile: Host) -> Iterator[Attacks]:
    """They are deaf to SIGTERM, and were told to stop right after."""
    with ThreadPoolExecutor(len(STOPPED)) as pool:
        begun = begin(hostile, STOPPED, "trap '' TERM; exec sleep 600", pool)
        for attack in begun.values():
            attack.host.backend.stop(attack.key, 0)
        yield begun


@pytest.mark.parametrize(("target", "kind"), PAIRS)
def test_whatever_is_replaced_by_whatever(attacks: Attacks, target: str, kind: str) -> None:
    seen = attacks[target, kind].end()
    assert seen.exit_code != 0
    attacks[target, kind].assert_gone()


@pytest.mark.parametrize(("target", "kind"), STOPPED)
def test_a_stop_works_all_the_same(stopped: Attacks, target: str, kind: str) -> None:
    stopped[target, kind].end()
    stopped[target, kind].assert_gone()


def test_a_note_that_is_just_being_written_is_replaced(host: Host) -> None:
    for number, kind in enumerate(["file", "link", "loop", "fifo", "socket", "directory"]):
        of = key(start=number)
        host.shell(f"above=.nemo; name=.exit.json.new; rm $above/$name; {KINDS[kind]}; exit 3", of)
        seen = host.end(of)
        assert seen.phase is (Phase.LOST if kind == "directory" else Phase.ENDED)
        assert seen.exit_code == (None if kind == "directory" else 3)


def test_a_place_that_was_prepared_by_another_step(host: Host) -> None:
    """Paths can be foretold: an earlier step may have been here."""
    for number, name in enumerate(["alive", "output", "started", "stop", "workload.json", "exit.json"]):
        for kind in ("link", "loop", "fifo", "socket", "directory"):
            of = key(step=f"{kind}-{number}")
            host.control(of).mkdir(parents=True)
            host.work(of).parents[1].chmod(0o700)
            (host.root / of.workspace).chmod(0o700)
            prepare = f"above={shlex.quote(str(host.control(of)))}; name={name}; {KINDS[kind]}"
            assert os.system(prepare) == 0
            begin = time.monotonic()
            with suppress(BackendError):
                host.shell("exit 3", of)
            assert time.monotonic() - begin < 30
            assert wait_over(host, of)


DEEP = "[" * 100_000
RECORDS = [
    "", "{", "null", "[]", '"text"', "NaN", "{}", DEEP, '{"exit_code": ' * 50_000, "\xff\xfe\0",
    '{"exit_code": 0, "x": "' + "x" * 10_000_000 + '"}',
    '{"exit_code": 1' + "0" * 10_000 + "}",
]  # fmt: skip
ENDS = [json.dumps({"exit_code": code}) for code in (True, "0", None, 0.0, math.nan, 10**30, -10_000, [0])]
STARTS = [
    json.dumps({"pid": pid, "born": 1, "boot": "here", "pipes": [], "started": 1, "supervisor": 1})
    for pid in (True, "1", None, 1.5, math.nan, 10**30, 0, -1, [1])
]
WORKLOADS = [
    json.dumps({"workspace": "default", "run_id": "my-job", "run_key": "firstrun", "step": "train", **more})
    for more in (
        {"generation": "0", "start": 0},
        {"generation": 0, "start": "0"},
        {"generation": 0, "start": 0, "workspace": "../.."},
        {"generation": 0, "start": 0, "run_id": "a/b"},
        {"generation": 0, "start": 0, "run_id": ["my-job"]},
        {"generation": 0, "start": 0, "more": 1},
        {"generation": 0},
    )
]


@pytest.mark.parametrize(
    ("name", "contents"),
    [("exit.json", RECORDS + ENDS), ("started", RECORDS + STARTS), ("workload.json", RECORDS + WORKLOADS)],
)
def test_what_is_not_as_we_wrote_it_counts_as_absent(host: Host, name: str, contents: list[str]) -> None:
    host.shell("exit 7")
    host.end()
    (host.control() / "exit.json").rename(host.root / "exit.json")
    for content in contents:
        (host.control() / name).write_text(content, encoding="latin-1")
        seen = host.backend.observe(key())
        assert seen.phase is (Phase.ABSENT if name == "started" else Phase.LOST), content[:99]
        json.dumps(dict(seen.details), allow_nan=False)
        host.backend.stop(key(), 1)
        host.backend.wait(key(), 0.01, Event())
        assert list(host.backend.find(key())) == ([] if name == "workload.json" else [key()]), content[:99]
    assert host.chunks() == []
    host.backend.cleanup(key())
    assert not host.work().exists()


@pytest.mark.parametrize("word", ['["asked"]', '{"a": 1}', '"whatever"', "1", "true"])
def test_a_reason_to_stop_that_is_none_of_ours(host: Host, word: str) -> None:
    host.shell("exit 7")
    host.end()
    (host.control() / "exit.json").write_text(f'{{"exit_code": 7, "stopped": {word}}}')
    seen = host.backend.observe(key())
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 7, None)


FORGE = """echo '{"exit_code": 0}' > .nemo/exit.json"""


def test_a_forged_end_is_believed_by_nobody(host: Host) -> None:
    ready = "trap 'echo told; exit 5' TERM; echo ready; while [ ! -e go ]; do sleep 0.01; done"
    details = host.shell(f"{ready}; {FORGE}; touch forged; while :; do sleep 0.01; done")
    wait_until(lambda: b"ready" in host.output_file())
    reader = host.backend.read_logs(key(), None, Event())
    with host.frozen_supervisor():  # it would find out within a second
        (host.work() / "go").touch()
        wait_until((host.work() / "forged").exists)
        seen = host.backend.observe(key())
        assert (seen.phase, seen.details) == (Phase.RUNNING, details)
        host.backend.cleanup(key())
        assert not host.backend.remove_job("default", "my-job", key().run_key)
        assert lives(details["pid"]) and host.work().exists()
        said = list(itertools.takewhile(lambda chunk: chunk is not None, reader))
        assert [chunk.data for chunk in said if chunk] == [b"ready\n"]
    assert [chunk.data for chunk in reader if chunk and chunk.stream == "stdout"] == [b"told\n"]
    seen = host.end()
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 5, "orphaned")


@pytest.mark.parametrize("removal", ["cleanup", "remove_job"])
def test_who_lives_behind_a_forged_end_is_killed_by_the_removal(host: Host, removal: str) -> None:
    host.shell(f"{FORGE}; setsid sleep 60 & echo ready; wait")
    wait_until(lambda: b"ready" in host.output_file() and len(host.processes()) == 3)
    host.kill_supervisor()
    assert host.backend.observe(key()).phase is Phase.ENDED
    assert host.processes()
    if removal == "cleanup":
        host.backend.cleanup(key())
    else:
        assert host.backend.remove_job("default", "my-job", key().run_key)
    assert not host.processes()
    assert not host.work().exists()


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "-1", "1e999", "[", "true", "\xff"])
def test_a_grace_that_is_no_number_of_seconds_is_ignored(host: Host, word: str) -> None:
    host.shell("trap 'exit 5' TERM; while :; do echo tick; sleep 0.01; done")
    wait_until(lambda: b"tick" in host.output_file())
    fifo = os.open(host.control() / "stop", os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(fifo, f"{word}\n".encode("latin-1") * 100)
        wait_until(lambda: waiting(fifo) == 0)
    finally:
        os.close(fifo)
    # What is copied from now on is copied after the words were judged; a command that was told to go would not tick on.
    for _ in range(3):
        size = len(host.output_file())
        wait_until(lambda size=size: len(host.output_file()) > size)
    assert host.backend.observe(key()).phase is Phase.RUNNING
    host.backend.stop(key(), 5)
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (5, "asked")


def waiting(pipe: int) -> int:
    """Bytes in a pipe that nobody has read yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


def test_a_request_that_somebody_else_has_read_is_obeyed_all_the_same(host: Host) -> None:
    host.shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    wait_until(lambda: b"ready" in host.output_file())
    with host.frozen_supervisor():
        host.backend.stop(key(), 5)
        thief = os.open(host.control() / "stop", os.O_RDONLY | os.O_NONBLOCK)
        assert os.read(thief, 100) == b"5\n"
        os.close(thief)
    seen = host.end()
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 5, "asked")


def test_somebody_else_who_reads_the_requests_does_not_end_the_supervisor(host: Host) -> None:
    host.shell("exec 3< .nemo/stop; trap 'exit 5' TERM; echo ready; while :; do read -r word <&3; done")
    wait_until(lambda: b"ready" in host.output_file())
    supervisor = host.supervisor()
    while lives(supervisor):
        host.backend.stop(key(), 5)
    seen = host.backend.observe(key())
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 5, "asked")


def test_a_request_that_finds_no_room_is_obeyed_all_the_same(host: Host) -> None:
    host.shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    wait_until(lambda: b"ready" in host.output_file())
    with host.frozen_supervisor():
        fifo = os.open(host.control() / "stop", os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                os.write(fifo, b"x\n" * 2048)
        os.close(fifo)
        host.backend.stop(key(), 5)
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (5, "asked")


LOCK = "import fcntl, os, time; fcntl.flock(os.open('.', os.O_RDONLY), fcntl.LOCK_EX)"


def test_a_workload_may_lock_its_own_directory(host: Host) -> None:
    host.python(f"{LOCK}; print('locked', flush=True); time.sleep(60)")
    wait_until(lambda: b"locked" in host.output_file())
    assert host.backend.observe(key()).phase is Phase.RUNNING
    host.backend.stop(key(), 5)
    assert (host.end().stopped, host.output()) == ("asked", b"locked\n")


def test_a_locked_directory_does_not_hide_that_the_supervisor_is_gone(host: Host) -> None:
    away = "import os, time; os.fork() and time.sleep(60); os.setsid()"
    host.python(f"{away}; {LOCK}; print('locked', flush=True); time.sleep(60)")
    wait_until(lambda: b"locked" in host.output_file())
    host.kill_supervisor()
    assert host.backend.observe(key()).phase is Phase.LOST
    assert host.output() == b"locked\n"
    host.backend.cleanup(key())
    assert not host.work().exists()
    assert not host.processes()


def test_an_output_that_was_made_longer_than_any_disk_ends(host: Host) -> None:
    host.shell("echo before; sleep 0.2; truncate -s 1T .nemo/output; exit 3")
    assert host.end().exit_code == 3
    assert host.output() == b"before\n"
