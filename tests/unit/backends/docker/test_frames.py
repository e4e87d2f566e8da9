"""Reading on from any position gives exactly the rest, however the bytes were cut and the streams were mixed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.docker.frames import MARGIN_NANOS, NANO, Frame, Frames, Position, Track
from nemo_airflow_provider.model.logline import Stream

BASE = 1_796_000_000 * NANO
_NUMBERS: dict[Stream, int] = {"stdout": 1, "stderr": 2}


def stamp(nanos: int) -> bytes:
    """As the engine writes a time: without the zeros at its end (RFC 3339 with nanoseconds)."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=nanos // NANO)
    fraction = f".{nanos % NANO:09d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z".encode()


def framed(number: int, payload: bytes) -> bytes:
    return bytes([number, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def engine_output(records: list[Frame], since: int = 0) -> bytes:
    """What the engine sends of a log: the records that are not older, in the order in which they were written."""
    return b"".join(
        framed(_NUMBERS[record.stream], stamp(record.nanos) + b" " + record.data)
        for record in records
        if record.nanos >= since
    )


@st.composite
def logs(draw: st.DrawFn) -> list[Frame]:
    """A log in the order of its file: two streams whose writers lag behind each other within the margin, lines in
    parts that all have the time of the first, and many equal times.
    """
    records: list[Frame] = []
    open_lines: dict[Stream, int] = {}
    newest = BASE
    for _ in range(draw(st.integers(0, 25))):
        stream: Stream = draw(st.sampled_from(["stdout", "stderr"]))
        if stream not in open_lines:
            step = st.sampled_from([0, 0, 1, NANO // 3, MARGIN_NANOS, 10 * NANO, -1, -NANO, 1 - MARGIN_NANOS])
            open_lines[stream] = max(BASE, newest + draw(step))
            newest = max(newest, open_lines[stream])
        data = draw(st.binary(max_size=4)).replace(b"\n", b"")
        nanos = open_lines[stream]
        if draw(st.booleans()):
            data += b"\n"
            del open_lines[stream]
        records.append(Frame(stream, nanos, data))
    return records


@settings(max_examples=50)
@given(logs(), st.data())
def test_any_cut_of_the_bytes_gives_the_same_frames(records: list[Frame], data: st.DataObject) -> None:
    output = engine_output(records)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=12)))
    frames = Frames()
    found: list[Frame] = []
    for begin, end in zip([0, *cuts], [*cuts, len(output)], strict=True):
        found += frames.take(output[begin:end])
    assert found == records


@settings(max_examples=60)
@given(logs())
def test_reading_on_from_any_position_gives_the_rest(records: list[Frame]) -> None:
    track = Track(Position())
    positions = [Position(), *(track.take(record) for record in records)]
    kept = Track(Position())
    for number, position in enumerate(positions):
        assert kept.position == position
        unread = list(Frames(skip=position.known).take(engine_output(records, position.since)))
        assert unread == records[number:]
        if unread:
            kept.take(unread[0])
        again = list(Frames().take(engine_output(records, position.since)))
        assert again[position.known :] == records[number:]
        # A reader that began there gives the same positions as one that has read from the start.
        later = Track(position)
        assert [later.take(frame) for frame in again][position.known :] == positions[number + 1 :]


def test_a_position_does_not_grow_with_the_log() -> None:
    track = Track(Position())
    for second in range(10_000):
        position = track.take(Frame("stdout", BASE + second * NANO, b"\n"))
    assert position == Position(BASE + 9_997 * NANO, 3)


def test_a_long_line_holds_its_position() -> None:
    track = Track(Position())
    first = track.take(Frame("stdout", BASE, b"x" * 16))
    track.take(Frame("stderr", BASE + 60 * NANO, b"\n"))
    assert track.take(Frame("stdout", BASE, b"y")) == Position(BASE, 3)
    assert first.since <= BASE
    assert track.take(Frame("stdout", BASE, b"\n")) == Position(BASE + 58 * NANO, 1)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        (b"2026-12-01T10:00:00Z", 0),
        (b"2026-12-01T10:00:00.5Z", 500_000_000),
        (b"2026-12-01T10:00:00.000000001Z", 1),
        (b"2026-12-01T10:00:00.123456789+00:00", 123_456_789),
    ],
)
def test_times(text: bytes, nanos: int) -> None:
    [frame] = Frames().take(framed(1, text + b" hello world\n"))
    second = int(datetime(2026, 12, 1, 10, tzinfo=UTC).timestamp())
    assert frame == Frame("stdout", second * NANO + nanos, b"hello world\n")


def test_a_payload_is_kept_byte_by_byte() -> None:
    data = bytes(range(256)) + b" \r\n"
    [frame] = Frames().take(framed(2, stamp(BASE) + b" " + data))
    assert frame == Frame("stderr", BASE, data)


@pytest.mark.parametrize("text", [b"", b"yesterday", b"2026-12-01 10:00:00Z", b"2026-12-01T10:00:00+01:00"])
def test_a_record_without_a_time_is_output_of_the_time_before(text: bytes) -> None:
    frames = Frames()
    first, second = frames.take(framed(1, stamp(BASE) + b" a\n") + framed(1, text + b" x\n"))
    assert (first.nanos, second) == (BASE, Frame("stdout", BASE, text + b" x\n"))


def test_what_the_engine_says_itself_is_no_output() -> None:
    frames = Frames()
    assert list(frames.take(framed(3, b"Error grabbing logs:\n  invalid character"))) == []
    assert frames.complaint == "Error grabbing logs: invalid character"


def test_a_line_that_never_ends_holds_up_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_airflow_provider.backends.docker.frames._MOST_KNOWN", 10)
    track = Track(Position())
    track.take(Frame("stdout", BASE, b"loading"))
    positions = [track.take(Frame("stderr", BASE + n * NANO, b"x\n")) for n in range(1, 30)]
    assert positions[8] == Position(BASE, 10)
    assert positions[-1].known == 3


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([BASE, 3], Position(BASE, 3)),
        (Position(BASE, 3).dump(), Position(BASE, 3)),
        (None, Position()),
        ([], Position()),
        ([1], Position()),
        ([1, 2, 3], Position()),
        (["1", 2], Position()),
        ({"since": 1}, Position()),
        (7, Position()),
    ],
)
def test_stored_positions(stored: Any, expected: Position) -> None:
    assert Position.parse(stored) == expected
