from __future__ import annotations

from typing import Any

from nemo_airflow_provider.logs.batch import BYTES, Batch
from nemo_airflow_provider.logs.store import Line


class Writer:
    """Keeps what is appended, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Line]] = []

    def append(self, lines: list[Line]) -> None:
        self.calls.append(lines)

    @property
    def pending_bytes(self) -> int:
        return 1000 * len(self.calls)


def _line(number: int, message: str = "") -> Line:
    return (number, "task", "stdout", message)


def _batch() -> tuple[Any, Batch]:
    writer: Any = Writer()
    return writer, Batch(writer, lambda lines: [(*line[:3], line[3].upper()) for line in lines])


def test_lines_that_come_one_by_one_are_appended_together_in_their_order() -> None:
    writer, batch = _batch()
    for number in range(3):
        batch.add([_line(number, "a")])
    assert not writer.calls
    assert batch.pending_bytes > 0
    batch.flush()
    assert writer.calls == [[_line(number, "A") for number in range(3)]]
    assert batch.pending_bytes == 1000
    batch.flush()
    assert len(writer.calls) == 1


def test_no_more_is_held_back_than_a_little() -> None:
    writer, batch = _batch()
    batch.add([_line(0, "a" * BYTES)])
    assert len(writer.calls) == 1
    for number in range(BYTES):  # lines without a text take memory too
        batch.add([_line(number)])
    assert len(writer.calls) > 50
    assert batch.pending_bytes - writer.pending_bytes < BYTES
