"""The same pieces and positions, however the bytes arrive and wherever reading begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.kube import lines as module
from nemo_airflow_provider.backends.kube.lines import MARGIN_SECONDS, NANO, Lines, Piece, Position, Track

BASE = 1_796_000_000
#: Of text in a piece, in these tests.
SHORT = 40


def stamp(nanos: int) -> bytes:
    """As a kubelet writes a time."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=nanos // NANO)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos % NANO:09d}Z".encode()


def at(seconds: float) -> int:
    return BASE * NANO + int(seconds * NANO)


def output(entries: list[Piece], since: int = 0) -> bytes:
    """What a kubelet sends of a log whose entries are lines, or parts of them that have times of their own.

    An older entry is left out, whether it begins a line or goes on with one; a time stands where a line begins.
    """
    sent, is_new = b"", True
    for nanos, data in entries:
        if nanos >= since * NANO:
            sent += (stamp(nanos) + b" " if is_new else b"") + data
        is_new = data.endswith(b"\n")
    return sent


def pieces(sent: bytes) -> list[Piece]:
    cutter = Lines()
    found = list(cutter.take(sent))
    rest = cutter.rest()
    return found + ([rest] if rest else [])


@st.composite
def logs(draw: st.DrawFn) -> list[Piece]:
    """A log in the order of its file: out of the order of times by less than the margin, with equal times, with lines
    in several parts, and at the end perhaps without a newline.
    """
    entries: list[Piece] = []
    newest, is_open = at(0), False
    for _ in range(draw(st.integers(0, 25))):
        steps = [0, 0, 1, NANO // 3, 3 * NANO, 12 * NANO, 60 * NANO]
        nanos = max(at(0), newest + draw(st.sampled_from(steps if is_open else [*steps, -1, -NANO // 2])))
        newest = max(newest, nanos)
        data = draw(st.binary(min_size=1, max_size=2 * SHORT)).replace(b"\n", b".")
        is_open = draw(st.integers(0, 3)) == 0
        entries.append(Piece(nanos, data if is_open else draw(st.sampled_from([data, b""])) + b"\n"))
    return entries


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", SHORT)


@settings(max_examples=60)
@given(logs(), st.data())
def test_any_cut_of_the_bytes_gives_the_same_pieces(entries: list[Piece], data: st.DataObject) -> None:
    sent = output(entries)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12)))
    cutter = Lines()
    found: list[Piece] = []
    for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        found += cutter.take(sent[begin:end])
    rest = cutter.rest()
    found += [rest] if rest else []
    assert found == pieces(sent)
    assert b"".join(piece.data for piece in found) == b"".join(entry.data for entry in entries)
    assert all(len(piece.data) <= SHORT for piece in found)


@settings(max_examples=60)
@given(logs())
def test_a_track_that_begins_at_any_position_says_the_same(entries: list[Piece]) -> None:
    whole = pieces(output(entries))
    track = Track(0)
    positions = [track.take(piece.nanos) for piece in whole]
    for number, position in enumerate(positions):
        again = pieces(output(entries, position.since))
        assert again[position.known :] == whole[number + 1 :]
        assert (again[0].nanos, again[position.known - 1].nanos) == (position.first, position.last)
        later = Track(position.since)
        assert [later.take(piece.nanos) for piece in again][position.known - 1 :] == positions[number:]


def test_a_position_does_not_grow_with_the_log() -> None:
    track = Track(0)
    for second in range(10_000):
        position = track.take(at(second))
    known = MARGIN_SECONDS + 1
    assert position == Position(BASE + 10_000 - known, known, at(10_000 - known), at(9_999), 1, at(9_999))


def test_pieces_of_one_time_are_counted() -> None:
    track = Track(0)
    for seconds in (1, 2, 2, 2):
        position = track.take(at(seconds))
    assert position == Position(BASE + 2 - MARGIN_SECONDS, 4, at(1), at(2), 3, at(2))


def test_a_line_from_before_what_is_asked_for_counts_for_nothing() -> None:
    """A clock that was set back: nobody who asks again is given that line."""
    track = Track(0)
    before = track.take(at(100))
    assert track.take(at(1)) == before


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        (b"2026-12-01T10:00:00.000000000Z", 0),
        (b"2026-12-01T10:00:00.000000001Z", 1),
        (b"2026-12-01T10:00:00Z", 0),
        (b"2026-12-01T10:00:00.5Z", 500_000_000),
        (b"2026-12-01T12:00:00.123456789+02:00", 123_456_789),
        (b"2026-12-01T06:30:00.123456789-03:30", 123_456_789),
    ],
)
def test_times(text: bytes, nanos: int) -> None:
    second = int(datetime(2026, 12, 1, 10, tzinfo=UTC).timestamp())
    # Twice: a second that was seen already is not read again.
    assert pieces((text + b" word\n") * 2) == [Piece(second * NANO + nanos, b"word\n")] * 2


def test_text_is_kept_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    text = bytes(range(256)).replace(b"\n", b"") + b" \r\n"
    assert pieces(stamp(at(0)) + b" " + text + stamp(at(1)) + b" \n") == [Piece(at(0), text), Piece(at(1), b"\n")]


@pytest.mark.parametrize("rest", [b"of a line\n", b"x" * 100 + b"\n", b"\n", b"2026-99-99T99:99:99.000000000Z x\n"])
def test_the_rest_of_a_line_whose_beginning_was_not_asked_for_is_left_out(rest: bytes) -> None:
    line = stamp(at(0)) + b" a\n"
    assert pieces(rest + line + rest + line) == [Piece(at(0), b"a\n")] * 2


def test_what_the_kubelet_says_itself_is_no_output() -> None:
    cutter = Lines()
    words = b"too many:\topen files"
    assert list(cutter.take(stamp(at(0)) + b" a\n" + words)) == [Piece(at(0), b"a\n")]
    assert cutter.complaint == "too many: open files"
    assert cutter.rest() is None


def test_a_line_without_an_end_is_no_complaint() -> None:
    cutter = Lines()
    assert list(cutter.take(stamp(at(0)) + b" abc")) == []
    assert (cutter.rest(), cutter.complaint) == (Piece(at(0), b"abc"), "")
    assert list(cutter.take(b"d" * SHORT)) == [Piece(at(0), b"abc" + b"d" * (SHORT - 3))]
    assert (cutter.rest(), cutter.complaint) == (Piece(at(0), b"ddd"), "")
    assert list(cutter.take(b"\n")) == [Piece(at(0), b"ddd\n")]
    assert (cutter.rest(), cutter.complaint) == (None, "")


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], Position(1, 2, 3, 4, 5, 6)),
        (Position(1, 2, 3, 4, 5, 6).dump(), Position(1, 2, 3, 4, 5, 6)),
        (None, Position()),
        ([], Position()),
        ([1, 2, 3, 4, 5], Position()),
        ([1, 2, 3, 4, 5, "6"], Position()),
        ({"since": 1}, Position()),
        (7, Position()),
    ],
)
def test_stored_positions(stored: Any, expected: Position) -> None:
    assert Position.parse(stored) == expected
