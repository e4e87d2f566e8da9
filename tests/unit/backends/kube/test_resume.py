"""What is known is not told again and what is not known is, whatever the kubelet did to its files meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.kube import resume
from nemo_airflow_provider.backends.kube.lines import NANO, Piece, Position
from nemo_airflow_provider.backends.kube.resume import MARKER, Step, unknown
from tests.unit.backends.kube.test_lines import at, logs, output, pieces


def steps(known: Position, found: Iterable[Piece | None]) -> list[Step]:
    return [step for step in unknown(known, iter(found)) if step is not None]


def line(seconds: float, text: bytes = b"x") -> Piece:
    return Piece(at(seconds), text + b"\n")


def since(known: Position, file: list[Piece]) -> list[Piece]:
    """What the kubelet gives of a file."""
    return [piece for piece in file if piece.nanos >= known.since * NANO]


@settings(max_examples=60)
@given(logs())
def test_going_on_from_any_position_gives_the_same_steps(entries: list[Piece]) -> None:
    whole = steps(Position(), pieces(output(entries)))
    assert [step.piece for step in whole] == pieces(output(entries))
    for number, step in enumerate(whole):
        assert steps(step.start, pieces(output(entries, step.start.since))) == whole[number:]
        assert steps(step.end, pieces(output(entries, step.end.since))) == whole[number + 1 :]


@settings(max_examples=60)
@given(logs(), st.data())
def test_nothing_is_told_twice_or_left_out_after_a_rotation(entries: list[Piece], data: st.DataObject) -> None:
    whole = steps(Position(), pieces(output(entries)))
    if not whole:
        return
    times = [step.piece.nanos for step in whole]
    here = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.integers(1, len(whole)))
    known = whole[here].end
    if times.count(known.first) > 1 or times.count(known.last) > 1:
        return  # of lines of one time, nobody can tell which of them are in the new file
    file = [step.piece for step in whole[cut:]]
    silence = [None] if data.draw(st.booleans()) else []
    rest = steps(known, [*since(known, file), *silence])
    expected = [step.piece for step in whole[max(here + 1, cut) :]]
    told = [step.piece for step in rest]
    if here < cut and expected:
        assert told[0].data == MARKER
        told = told[1:]
    assert told == expected
    for number, step in enumerate(rest):
        assert steps(step.start, since(step.start, file)) == rest[number:]
        assert steps(step.end, since(step.end, file)) == rest[number + 1 :]


def test_the_marker_is_told_once_and_has_the_time_of_what_follows() -> None:
    known = steps(Position(), [line(0, b"a"), line(1, b"b")])[-1].end
    file = [line(5, b"c"), line(6, b"d")]
    told = steps(known, file)
    assert [step.piece for step in told] == [Piece(at(5), MARKER), *file]
    assert told[0].start == known
    assert steps(told[0].end, file) == told[1:]
    # Rotated again, before anything behind the marker was read.
    assert [step.piece for step in steps(told[0].end, file[1:])] == [Piece(at(6), MARKER), file[1]]


def test_output_that_goes_on_in_the_new_file_has_no_marker() -> None:
    file = [line(second, b"%d" % second) for second in range(8)]
    known = steps(Position(), file[:6])[-1].end
    told = steps(known, file[4:])
    assert [step.piece for step in told] == file[6:]
    assert told[0].start == known
    # From there on it is counted in the new file.
    assert steps(told[0].end, file[4:]) == told[1:]


def test_a_line_a_little_older_than_the_last_known_one_in_a_new_file_is_new() -> None:
    known = steps(Position(), [line(0), line(1)])[-1].end
    file = [line(0.999, b"late"), line(2)]
    assert [step.piece for step in steps(known, file)] == [Piece(at(0.999), MARKER), *file]


def test_a_line_that_was_written_before_its_turn_is_known() -> None:
    known = steps(Position(), [line(0), line(1.001, b"ahead"), line(1, b"behind")])[-1].end
    assert [step.piece for step in steps(known, [line(1.001, b"ahead"), line(1, b"behind"), line(2)])] == [line(2)]


def test_a_log_that_has_less_than_is_known() -> None:
    known = steps(Position(), [line(second) for second in range(5)])[-1].end
    assert steps(known, []) == []
    assert steps(known, [line(0), line(1)]) == []
    assert [step.piece for step in steps(known, [line(0), line(1), line(9)])] == [Piece(at(9), MARKER), line(9)]


def test_silence_is_passed_on_and_ends_the_search() -> None:
    known = steps(Position(), [line(0), line(1)])[-1].end
    late = line(0.999, b"late")
    told = list(unknown(known, iter([None, late, None, None, line(2)])))
    assert [step and step.piece for step in told] == [None, None, Piece(at(0.999), MARKER), late, None, line(2)]


def test_what_is_held_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "_MOST_BYTES", 20)
    known = steps(Position(), [line(0), line(1)])[-1].end
    told = steps(known, [line(0.5 + number / 1000) for number in range(100)])
    assert [step.piece for step in told] == [
        Piece(at(0.59), MARKER),
        *(line(0.5 + number / 1000) for number in range(90, 100)),
    ]
