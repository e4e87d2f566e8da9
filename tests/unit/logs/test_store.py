from __future__ import annotations

import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemo_airflow_provider.logs import store
from nemo_airflow_provider.logs.store import Line, StreamBusy, StreamDamaged, StreamId, StreamWriter
from nemo_airflow_provider.logs.stored import StoredStream, read_from

from .engine import BEGAN, STREAM, is_finished


def _lines(first: int, count: int, tasks: int = 1) -> list[Line]:
    return [(BEGAN + n, f"task-{n % tasks}", "stdout", f"line {n}") for n in range(first, first + count)]


def _messages(root: Path, stream: StreamId = STREAM) -> list[str]:
    lines = read_from(root, stream, 0, 1_000_000)
    assert [line.seq for line in lines] == list(range(len(lines)))
    return [line.message for line in lines]


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    text = 'quote " back\\slash, tab\t, nul\0, line\u2028separator, é 漢 😀'
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append([(BEGAN, "task-é", "stderr", text), (BEGAN + 1, "task-b", "stdout", "")])
        writer.commit(None)
    first, second = read_from(tmp_path, STREAM, 0, 10)
    assert (first.seq, first.micros, first.task, first.stream, first.message) == (
        0,
        BEGAN,
        "task-é",
        "stderr",
        text,
    )
    assert (second.seq, second.message) == (1, "")


def test_the_file_is_json_lines_with_utc_times(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append([(BEGAN + 5, "task-a", "stdout", "hello")])
        writer.commit(None)
    (row,) = (STREAM.path(tmp_path) / "seg-0.jsonl").read_text().splitlines()
    assert json.loads(row) == {
        "seq": 0,
        "timestamp": "2023-11-14T22:13:20.000005+00:00",
        "task": "task-a",
        "stream": "stdout",
        "message": "hello",
    }


def test_times_without_an_iso_form_are_moved_to_the_nearest(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append([(-5, "t", "stdout", ""), (10**30, "t", "stdout", "")])
        writer.commit(None)
    early, late = read_from(tmp_path, STREAM, 0, 2)
    assert (early.timestamp[:4], late.timestamp[:4]) == ("1970", "9999")


def test_appended_lines_are_not_readable_before_the_commit(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 3))
        assert writer.next_seq == 3
        assert writer.pending_bytes > 0
        assert store.line_count(tmp_path, STREAM) == 0
        writer.commit(None)
        assert writer.pending_bytes == 0
        assert store.line_count(tmp_path, STREAM) == 3


def test_everything_is_for_the_owner_only(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with StreamWriter.open(root, STREAM) as writer:
        writer.append(_lines(0, 3))
        writer.commit(None)
    store.mark_superseded(root, STREAM, 2)
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_second_writer_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM):
        with pytest.raises(StreamBusy, match="another process"):
            StreamWriter.open(tmp_path, STREAM)
        StreamWriter.open(tmp_path, StreamId("default", "2Kq9abc", 0, 1)).close()
    StreamWriter.open(tmp_path, STREAM).close()


def test_a_new_writer_goes_on_at_the_commit(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM, segment_bytes=2000) as writer:
        writer.append(_lines(0, 300, tasks=2))
        writer.commit({"at": 300})
        writer.append(_lines(300, 5000, tasks=7))  # dropped
    with StreamWriter.open(tmp_path, STREAM, segment_bytes=2000) as writer:
        assert (writer.next_seq, writer.source, writer.finished) == (300, {"at": 300}, False)
        writer.append(_lines(300, 700, tasks=3))
        writer.commit({"at": 1000})
    assert _messages(tmp_path) == [f"line {n}" for n in range(1000)]


def test_files_written_but_not_committed_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamWriter.open(tmp_path, STREAM, segment_bytes=2000) as writer:
        writer.append(_lines(0, 100))
        writer.commit(1)
        writer.append([(BEGAN, "task-new", "stdout", "never " * 100)] * 1000)
        writer._write_pending()  # a kill after the data and before the record
    directory = STREAM.path(tmp_path)
    assert len(list(directory.glob("seg-*"))) > 1
    with StreamWriter.open(tmp_path, STREAM, segment_bytes=2000) as writer:
        assert [path.name for path in directory.glob("seg-*")] == ["seg-0.jsonl"]
        assert not (directory / "task-1").exists()
        writer.append(_lines(100, 400))
        writer.commit(2)
    assert _messages(tmp_path) == [f"line {n}" for n in range(500)]
    with StoredStream(tmp_path, STREAM, "task-0") as stored:
        assert stored.total == 500


def test_a_finished_stream_is_so_until_the_next_commit(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 1))
        writer.commit("here")
        assert not is_finished(tmp_path)
        writer.commit("here", finished=True)
        assert is_finished(tmp_path)
    with StreamWriter.open(tmp_path, STREAM) as writer:
        assert (writer.finished, writer.source) == (True, "here")
        writer.append(_lines(1, 1))
        writer.commit("there")
    assert not is_finished(tmp_path)


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_survived_in_place(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 50))
        writer.commit(50)
        writer.append(_lines(50, 1000))
        with _largest_file(20_000):
            for _ in range(3):
                with pytest.raises(OSError, match="File too large"):
                    writer.commit(1050)
            assert _messages(tmp_path) == [f"line {n}" for n in range(50)]
        writer.append(_lines(1050, 10))
        writer.commit(1060)
    assert _messages(tmp_path) == [f"line {n}" for n in range(1060)]


def test_a_full_disk_is_survived_by_the_next_writer(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 50))
        writer.commit(50)
        writer.append(_lines(50, 1000))
        with _largest_file(20_000), pytest.raises(OSError, match="File too large"):
            writer.commit(1050)
    with StreamWriter.open(tmp_path, STREAM) as writer:
        assert (writer.next_seq, writer.source) == (50, 50)
        writer.append(_lines(50, 3))
        writer.commit(53)
    assert _messages(tmp_path) == [f"line {n}" for n in range(53)]


@pytest.mark.parametrize("name", ["seg-0.jsonl", "index", "task-0"])
def test_lost_files_are_reported(tmp_path: Path, name: str) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 50))
        writer.commit(50)
    os.truncate(STREAM.path(tmp_path) / name, 3)
    with pytest.raises(StreamDamaged, match=f"{name} has 3 bytes"):
        StreamWriter.open(tmp_path, STREAM)
    with pytest.raises(StreamDamaged):  # the lock was let go of
        StreamWriter.open(tmp_path, STREAM)


def test_two_torn_commit_records_do_not_cost_the_log(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        for source in (1, 2):
            writer.append(_lines(50 * (source - 1), 50))
            writer.commit(source)
    directory = STREAM.path(tmp_path)
    size = (directory / "seg-0.jsonl").stat().st_size
    for slot in ("commit-0", "commit-1"):
        os.truncate(directory / slot, 20)
    with pytest.raises(StreamDamaged, match="Neither commit record"):
        StreamWriter.open(tmp_path, STREAM)
    assert (directory / "seg-0.jsonl").stat().st_size == size
    assert _messages(tmp_path) == []


def test_a_first_commit_that_was_torn_is_written_again(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        writer.append(_lines(0, 50))
        writer.commit(1)
    os.truncate(STREAM.path(tmp_path) / "commit-1", 20)
    with StreamWriter.open(tmp_path, STREAM) as writer:
        assert writer.next_seq == 0
        writer.append(_lines(0, 3))
        writer.commit(1)
    assert _messages(tmp_path) == [f"line {n}" for n in range(3)]


def test_remove_run_is_harmless_twice_and_to_open_readers(tmp_path: Path) -> None:
    other = StreamId("default", "other", 0, 0)
    for stream in (STREAM, other):
        with StreamWriter.open(tmp_path, stream) as writer:
            writer.append(_lines(0, 1000))
            writer.commit(None)
    with StoredStream(tmp_path, STREAM) as opened, StoredStream(tmp_path, STREAM) as late:
        assert len(opened.read(0, 10, 10_000)) == 10
        for _ in range(2):
            store.remove_run(tmp_path, STREAM.workspace, STREAM.run_key)
        assert len(opened.read(500, 10, 10_000)) == 10
        assert late.read(0, 10, 10_000) == []
    assert store.line_count(tmp_path, STREAM) == 0
    assert store.line_count(tmp_path, other) == 1000


def test_a_writer_notices_that_its_stream_was_removed(tmp_path: Path) -> None:
    with StreamWriter.open(tmp_path, STREAM) as writer:
        store.remove_run(tmp_path, STREAM.workspace, STREAM.run_key)
        writer.append(_lines(0, 1))
        with pytest.raises(store.StreamRemoved, match="deleted"):
            writer.commit(None)
    with StreamWriter.open(tmp_path, STREAM) as writer:
        assert writer.next_seq == 0


def test_superseded_is_a_mark_of_its_own(tmp_path: Path) -> None:
    assert store.superseded_start(tmp_path, STREAM) is None
    store.mark_superseded(tmp_path, STREAM, 0)
    store.mark_superseded(tmp_path, STREAM, 1)
    assert store.superseded_start(tmp_path, STREAM) == 1
    assert store.line_count(tmp_path, STREAM) == 0


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "a\0b"])
def test_ids_cannot_lead_elsewhere(tmp_path: Path, part: str) -> None:
    with pytest.raises(ValueError, match="cannot be part"):
        StreamId("default", part, 0, 0)
    with pytest.raises(ValueError, match="cannot be part"):
        store.remove_run(tmp_path, part, "key")
