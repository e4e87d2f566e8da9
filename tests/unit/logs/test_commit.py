from __future__ import annotations

from pathlib import Path

from nemo_airflow_provider.logs.commit import Commit, TaskCount, load, slot_path


def _store(directory: Path, record: Commit) -> None:
    Path(slot_path(str(directory), record.counter)).write_bytes(record.encode())


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = Commit(7, 300, 2, 4096, True, (TaskCount("task-é", 2, 300),), {"position": [1, "x"]})
    _store(tmp_path, record)
    assert load(str(tmp_path)) == record


def test_nothing_committed_is_none(tmp_path: Path) -> None:
    assert load(str(tmp_path)) is None
    assert load(str(tmp_path / "absent")) is None


def test_the_higher_counter_wins_in_either_slot(tmp_path: Path) -> None:
    _store(tmp_path, Commit(1, 10))
    _store(tmp_path, Commit(2, 20))
    assert load(str(tmp_path)) == Commit(2, 20)
    _store(tmp_path, Commit(3, 30))
    assert load(str(tmp_path)) == Commit(3, 30)


def test_a_record_larger_than_the_first_read_comes_back(tmp_path: Path) -> None:
    record = Commit(1, source="x" * 300_000)
    _store(tmp_path, record)
    assert load(str(tmp_path)) == record


def test_a_shorter_record_over_a_longer_one_counts(tmp_path: Path) -> None:
    path = Path(slot_path(str(tmp_path), 2))
    long, short = Commit(2, source="x" * 500).encode(), Commit(4, source="y").encode()
    path.write_bytes(short + long[len(short) :])
    assert load(str(tmp_path)) == Commit(4, source="y")


def test_a_write_torn_at_any_byte_leaves_the_record_before(tmp_path: Path) -> None:
    before = Commit(4, 40, source="old")
    overwritten = Commit(3, 30, source="older").encode()
    new = Commit(5, 50, source="newer").encode()
    _store(tmp_path, before)
    for torn_at in range(len(new)):
        torn = new[:torn_at] + overwritten[torn_at:]
        Path(slot_path(str(tmp_path), 5)).write_bytes(torn)
        found = load(str(tmp_path))
        assert found in (before, Commit(5, 50, source="newer")) if torn == new else found == before
