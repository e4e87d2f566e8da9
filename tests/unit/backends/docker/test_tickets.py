"""The line of those who wait for GPUs: real files, real locks, real processes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.docker import tickets
from nemo_airflow_provider.backends.docker.tickets import Line, Ticket, Waiter
from nemo_airflow_provider.errors import BackendError, CapacityError


def waiter(step: str) -> Waiter:
    return Waiter("default", "job", step, "task-1", 1, 1.5)


def joined(line: Line, step: str) -> Ticket:
    with line.locked():
        return line.join(waiter(step))


def before(line: Line, ticket: Ticket | None = None) -> int:
    with line.locked():
        return line.before(ticket)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line("host/ENGINE", tmp_path)


@contextmanager
def process(line: Line, work: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that does `work` with the line and then says so."""
    code = f"""
        import sys
        from pathlib import Path
        from nemo_airflow_provider.backends.docker.tickets import Line, Waiter
        line = Line("host/ENGINE", Path({str(line.directory.parent)!r}))
    """
    script = textwrap.dedent(code) + textwrap.dedent(work)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "there\n"
            yield child
        finally:
            child.kill()


JOINS = """
    with line.locked():
        ticket = line.join(Waiter("default", "job", "other", "task-2", 2, 2.5))
    print("there", flush=True)
    sys.stdin.read()
"""
HOLDS = """
    with line.locked():
        print("there", flush=True)
        sys.stdin.read()
"""


def test_first_come_first_served(line: Line) -> None:
    first, second = joined(line, "first"), joined(line, "second")
    assert (before(line, first), before(line, second), before(line)) == (0, 1, 2)
    assert line.waiters() == [waiter("first"), waiter("second")]
    first.drop()
    third = joined(line, "third")
    assert (before(line, second), before(line, third), before(line)) == (0, 1, 2)
    for ticket in (second, third):
        ticket.drop()
        ticket.drop()
    assert (before(line), line.waiters()) == (0, [])


def test_many_are_sorted_by_their_numbers(line: Line) -> None:
    held = [joined(line, f"s{number}") for number in range(12)]
    assert [each.step for each in line.waiters()] == [f"s{number}" for number in range(12)]
    assert before(line, held[11]) == 11
    for ticket in held:
        ticket.drop()


def test_a_waiter_of_another_process_counts_until_the_process_has_gone(line: Line) -> None:
    with process(line, JOINS) as child:
        own = joined(line, "own")
        assert before(line, own) == 1
        assert line.waiters() == [Waiter("default", "job", "other", "task-2", 2, 2.5), waiter("own")]
        child.kill()
        child.wait()
        assert before(line, own) == 0
        assert line.waiters() == [waiter("own")]
        own.drop()
    assert [path.name for path in line.directory.iterdir()] == ["lock"]


def test_gpus_are_given_out_by_one_process_at_a_time(line: Line) -> None:
    with process(line, HOLDS) as child:
        lock = os.open(line.directory / "lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(lock)
        child.kill()
        child.wait()
        with line.locked():
            pass


def test_who_finds_the_lock_taken_asks_again_later(line: Line) -> None:
    """Instead of waiting, deaf to a cancel, for a process that may be stuck."""
    with process(line, HOLDS):
        with pytest.raises(CapacityError) as told, line.locked():
            pytest.fail("the lock was had")
        assert str(told.value) == "Another worker of this host is giving out GPUs; asking again."


def test_a_lock_that_is_held_for_a_moment_is_waited_for(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        stack.enter_context(line.locked())
        monkeypatch.setattr(time, "sleep", lambda _: stack.close())
        with line.locked():
            pass


def test_the_lock_falls_with_an_error(line: Line) -> None:
    with pytest.raises(RuntimeError), line.locked():
        raise RuntimeError
    with line.locked():
        pass


def test_who_only_looks_takes_nobodys_place(line: Line) -> None:
    """Between the making of a ticket and its lock it looks like one whose process is gone."""
    ticket = joined(line, "own")
    fcntl.flock(ticket.file, fcntl.LOCK_UN)
    line.waiters()
    assert ticket.path.exists()
    ticket.drop()


def test_nobody_waits_where_nobody_has_ever_waited(line: Line) -> None:
    assert line.waiters() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"workspace": "w"}', b"\xff"])
def test_a_ticket_that_is_being_written_is_not_listed(line: Line, content: bytes) -> None:
    ticket = joined(line, "own")
    ticket.path.write_bytes(content)
    assert line.waiters() == []
    ticket.drop()


def test_a_ticket_that_cannot_be_read_keeps_its_place(line: Line) -> None:
    """A later version may write another."""
    with process(line, JOINS.replace("print(", "ticket.path.write_bytes(b'{}'); print(")) as child:
        own = joined(line, "own")
        assert (before(line, own), before(line)) == (1, 2)
        assert line.waiters() == [waiter("own")]
        child.kill()
        child.wait()
        assert before(line, own) == 0
        own.drop()


def test_what_a_later_version_says_of_a_waiter_besides_is_ignored(line: Line) -> None:
    ticket = joined(line, "own")
    ticket.path.write_text(json.dumps({**asdict(waiter("own")), "priority": 7}))
    assert line.waiters() == [waiter("own")]
    ticket.drop()


def test_files_of_others_are_no_tickets(line: Line) -> None:
    ticket = joined(line, "own")
    (line.directory / "notes").write_text("x")
    (line.directory / "000000000009.link").symlink_to("/etc/passwd")
    (line.directory / "7").mkdir()
    os.mkfifo(line.directory / "8")
    assert before(line) == 1
    ticket.drop()


def test_engines_have_lines_of_their_own(tmp_path: Path) -> None:
    assert Line("host/A", tmp_path).directory != Line("host/B", tmp_path).directory
    assert Line("host/A", tmp_path).directory == Line("host/A", tmp_path).directory


def test_every_user_of_the_host_may_wait(line: Line) -> None:
    mask = os.umask(0o077)
    try:
        joined(line, "own").drop()
    finally:
        os.umask(mask)
    assert line.directory.stat().st_mode & 0o7777 == 0o1777
    assert (line.directory / "lock").stat().st_mode & 0o777 == 0o666


def test_what_users_see_of_each_other(line: Line) -> None:
    mask = os.umask(0o077)
    try:
        ticket = joined(line, "own")
    finally:
        os.umask(mask)
    assert ticket.path.stat().st_mode & 0o777 == 0o644
    ticket.drop()


def refused(line: Line) -> str:
    with pytest.raises(BackendError) as told, line.locked():
        pytest.fail("the lock was had")
    return str(told.value)


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    line = Line("e", tmp_path / "nowhere")
    assert refused(line) == (
        f"The GPUs of this host cannot be given out: {line.directory}: No such file or directory. Every user that "
        "runs workers must be able to write there."
    )
    assert line.waiters() == []


@pytest.mark.parametrize("target", ["file", "directory"])
def test_a_place_that_somebody_else_has_prepared(tmp_path: Path, target: str) -> None:
    line = Line("e", tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    line.directory.symlink_to(tmp_path / target)
    assert "it is no directory" in refused(line)


def test_a_lock_that_leads_elsewhere(tmp_path: Path) -> None:
    line = Line("e", tmp_path)
    line.directory.mkdir()
    (line.directory / "lock").symlink_to(tmp_path / "elsewhere")
    assert "Too many levels of symbolic links" in refused(line)
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_that_cannot_be_joined_is_no_fault_of_the_engine(line: Line) -> None:
    with line.locked():
        pass
    with line.locked():
        (line.directory / "lock").unlink()
        line.directory.rmdir()
        with pytest.raises(BackendError, match="The GPUs of this host cannot be given out: .*: No such file"):
            line.join(waiter("own"))
        with pytest.raises(BackendError, match="The GPUs of this host cannot be given out: .*: No such file"):
            line.before(None)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Where a line may be, the first that will do; none is there."""
    made = [tmp_path / name for name in "abcd"]
    monkeypatch.setattr(tickets, "_PLACES", tuple(map(str, made)))
    return made


def test_a_host_without_any_place(places: list[Path]) -> None:
    with pytest.raises(BackendError) as told:
        before(Line("e"))
    assert str(told.value) == (
        f"The GPUs of this host cannot be given out: none of {', '.join(map(str, places))} is a directory where every "
        "user may make files (mode 1777). Every user that runs workers must be able to write there."
    )


def test_every_user_of_the_host_comes_to_the_same_place(places: list[Path]) -> None:
    """Also root, who may write everywhere."""
    places[0].write_text("")
    for place, mode in zip(places[1:], (0o755, 0o777, 0o1777), strict=True):
        place.mkdir()
        place.chmod(mode)
    assert Line("e").directory.parent == places[3]
    places[1].chmod(0o1777)
    assert Line("e").directory.parent == places[1]
