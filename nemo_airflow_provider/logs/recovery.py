"""Taking over a stream: its lock, and cutting off what its last writer did not commit."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from nemo_airflow_provider.logs.commit import Commit, is_damaged, load
from nemo_airflow_provider.logs.layout import (
    BLOCK_LINES,
    RECORD,
    StreamBusy,
    StreamDamaged,
    index_path,
    make_directory,
    segment_path,
    task_path,
)


def lock_stream(path: Path, root: Path) -> int:
    """Create the stream's directory and take its lock, which lasts until the descriptor is closed.

    A forked child must close the descriptor too, or it keeps the lock.

    :return: the locked descriptor
    :raises StreamBusy: another writer holds it
    """
    name = path / "lock"
    while True:
        try:
            make_directory(path, root)
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # the run was removed between two of these calls
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StreamBusy(f"The log in {path} is being written by another process.") from None
        except BaseException:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # we locked a file that was just removed


def recover(directory: str) -> tuple[Commit, list[int]]:
    """Cut every file of a locked stream back to its commit.

    :return: the commit, and the last block of each task's list in the order of its `tasks`
    :raises StreamDamaged: there is no whole commit record any more, or a file is shorter than it says
    """
    record = load(directory)
    if record is None and is_damaged(directory):
        raise StreamDamaged(
            f"Neither commit record in {directory} can be read. Move the directory away to start the log anew."
        )
    record = record or Commit()
    for name in os.listdir(directory):
        if name.startswith("seg-") and int(name[4:].removesuffix(".jsonl")) > record.segment:
            os.unlink(f"{directory}/{name}")
        if name.startswith("task-") and int(name[5:]) >= len(record.tasks):
            os.unlink(f"{directory}/{name}")
    _cut(segment_path(directory, record.segment), record.end)
    _cut(index_path(directory), -(-record.next_seq // BLOCK_LINES) * RECORD.size)
    last_blocks = []
    for number, task in enumerate(record.tasks):
        path = task_path(directory, number)
        _cut(path, task.records * RECORD.size)
        with open(path, "rb") as file:
            file.seek(-RECORD.size, os.SEEK_END)
            last_blocks.append(RECORD.unpack(file.read(RECORD.size))[0])
    return record, last_blocks


def _cut(path: str, size: int) -> None:
    actual = os.stat(path).st_size if os.path.exists(path) else 0
    if actual < size:
        raise StreamDamaged(
            f"{path} has {actual} bytes and its commit record says {size}: files were lost. "
            "Move the directory away to start the log anew."
        )
    if actual > size:
        os.truncate(path, size)
